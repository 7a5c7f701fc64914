"""State dict checks: an optimizer loads all of a state, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NoReturn, TypeGuard

from ..base.errors import DTypeError, ShapeError, StateError
from ..tensor.tensor import Tensor

StateSpec = Mapping[str, type]
"""State of a parameter, by name: `Tensor`, of its shape, or `int`, a count."""


class CheckedState:
    """State dict that has been checked against an optimizer.

    Attributes
    ----------
    options : list of dict
        New options of each group.
    state : dict
        State of parameters; tensors are copies on their devices.
    """

    def __init__(
        self,
        groups: Sequence[Mapping[str, Any]],
        remembered: StateSpec | None,
        state_dict: object,
    ) -> None:
        self._remembered = remembered
        given, state = _parts(state_dict)
        sizes = [len(group["params"]) for group in given]
        own = [len(group["params"]) for group in groups]
        if sizes != own:
            _refuse(
                f"the state has groups of {sizes} parameters, the optimizer of {own};"
                " they must be equal"
            )
        numbers = [number for group in given for number in group["params"]]
        params = [parameter for group in groups for parameter in group["params"]]
        by_number = dict(zip(numbers, params))
        if len(by_number) != len(params) or not state.keys() <= by_number.keys():
            _refuse(
                f"parameters are numbered {numbers}, and remembered are {[*state]};"
                " numbers must be of one parameter each"
            )
        self.options = [_options(mine, new) for mine, new in zip(groups, given)]
        self.state = {
            by_number[number]: self._entry(number, by_number[number], entry)
            for number, entry in state.items()
        }

    def _entry(
        self, number: object, parameter: Tensor, entry: object
    ) -> dict[str, Any]:
        """Return a checked copy of one parameter's state."""
        if not isinstance(entry, Mapping):
            _refuse(
                f"state[{number}] is of type {type(entry).__name__}; it must be a dict"
            )
        known = self._remembered
        if known is not None and entry.keys() != known.keys():
            _refuse(
                f"state[{number}] has {', '.join(map(str, entry)) or 'nothing'}; the"
                f" optimizer remembers {', '.join(known) or 'nothing'}"
            )
        copied = {}
        for name, value in entry.items():
            where = f"state[{number}][{name!r}]"
            kind = (known or {}).get(name, type(value))
            if not isinstance(value, kind) or isinstance(value, bool):
                _refuse(
                    f"{where} is of type {type(value).__name__}; it must be of type"
                    f" {kind.__name__}"
                )
            if isinstance(value, int) and kind is int and value < 0:
                _refuse(f"{where} is {value}; it must be at least 0")
            copied[name] = value
            if isinstance(value, Tensor):
                copied[name] = _copy_like(where, value, parameter, known is not None)
        return copied


def is_number(value: object) -> TypeGuard[float]:
    """Return whether something is a real number, of NumPy too, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _refuse(text: str) -> NoReturn:
    raise StateError(f"load_state_dict: {text}; nothing was loaded")


def _parts(
    state_dict: object,
) -> tuple[Sequence[Mapping[str, Any]], Mapping[Any, object]]:
    """Return groups and state of a state that has both."""
    if not isinstance(state_dict, Mapping):
        _refuse(
            f"the state is of type {type(state_dict).__name__}; it must be a dict, as"
            " state_dict() gives"
        )
    groups, state = (state_dict.get(name) for name in ("param_groups", "state"))
    if not isinstance(groups, list | tuple) or not isinstance(state, Mapping):
        _refuse(
            f"the state has {', '.join(map(str, state_dict)) or 'nothing'}; it must"
            ' have a list of "param_groups" and a dict of "state"'
        )
    for at, group in enumerate(groups):
        params = group.get("params") if isinstance(group, Mapping) else None
        whole = isinstance(params, list | tuple) and all(
            type(each) is int for each in params
        )
        if not whole:
            _refuse(
                f'param_groups[{at}] is {group!r}; it must have numbers as "params"'
            )
    return groups, state


def _options(mine: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a group as a state has them."""
    options = {name: value for name, value in given.items() if name != "params"}
    for name, value in options.items():
        if name not in mine:
            known = ", ".join(each for each in mine if each != "params")
            _refuse(f"the option {name!r} is unknown; the optimizer takes {known}")
        if not _is_like(value, mine[name]):
            _refuse(f"the option {name!r} is {value!r}; it must be like {mine[name]!r}")
    return options


def _is_like(value: object, known: object) -> bool:
    """Return whether an option is of the same type as the one it replaces."""
    if is_number(known):
        return is_number(value)
    if not isinstance(known, list | tuple):
        return isinstance(value, type(known)) or known is None
    return (
        isinstance(value, list | tuple)
        and len(value) == len(known)
        and all(map(_is_like, value, known))
    )


def _copy_like(where: str, value: Tensor, parameter: Tensor, same: bool) -> Tensor:
    """Return a copy of a tensor on the device of its parameter, and of its dtype."""
    if not same:
        return value.detach().clone().to(parameter.device)
    if value.shape != parameter.shape:
        raise ShapeError(
            f"load_state_dict: {where} is of shape {tuple(value.shape)}, its parameter"
            " of"
            f" {tuple(parameter.shape)}; they must be equal; nothing was loaded"
        )
    if not value.dtype.is_float:
        raise DTypeError(
            f"load_state_dict: {where} is {value.dtype.name}; it must be of floats;"
            " nothing was loaded"
        )
    return value.detach().clone().to(device=parameter.device, dtype=parameter.dtype)
