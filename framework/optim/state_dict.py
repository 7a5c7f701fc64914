"""State dict checks: an optimizer loads all of a state, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, NoReturn, TypeGuard

from ..base.errors import DTypeError, ShapeError, StateError
from ..tensor.tensor import Tensor

StateSpec = Mapping[str, type]
"""State of a parameter, by name: `Tensor`, of its shape, `int`, a count, or `float`,
what follows from the others and is not loaded."""


class AnyShape:
    """In a `StateSpec`: a tensor of a shape of its own, which may be missing."""


class States(dict[Tensor, dict[str, Any]]):
    """State of each parameter; asking for that of one without makes an empty one."""

    def __missing__(self, parameter: Tensor) -> dict[str, Any]:
        made = self[parameter] = dict[str, Any]()
        return made


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
        spec_of: Callable[[dict[str, Any]], StateSpec | None],
        state_dict: object,
    ) -> None:
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
        others = {key for key in state if not isinstance(key, int)}
        if len(by_number) != len(params) or not state.keys() - others <= {*by_number}:
            _refuse(
                f"parameters are numbered {numbers}, and remembered are {[*state]};"
                " numbers must be of one parameter each"
            )
        self.options = [_options(mine, new) for mine, new in zip(groups, given)]
        specs = {
            id(parameter): spec_of({**mine, **new})
            for mine, new in zip(groups, self.options)
            for parameter in mine["params"]
        }
        entries = {
            by_number[number]: self._entry(
                number, by_number[number], entry, specs[id(by_number[number])]
            )
            for number, entry in state.items()
            if number not in others
        }
        self.state = States({key: entry for key, entry in entries.items() if entry})
        # What a subclass keeps beside the states of parameters is taken as it is.
        self.state.update({key: state[key] for key in others})

    def _entry(
        self,
        number: object,
        parameter: Tensor,
        entry: object,
        known: StateSpec | None,
    ) -> Any:
        """Return a checked copy of one parameter's state; {} if there is none."""
        if not isinstance(entry, Mapping):
            if known is None:
                return entry
            _refuse(
                f"state[{number}] is of type {type(entry).__name__}; it must be a dict"
            )
        if known is not None:
            # PyTorch keeps None in the place of what has not been made.
            derived = {name for name, kind in known.items() if kind is float}
            known = {name: kind for name, kind in known.items() if name not in derived}
            given, entry = (
                entry,
                {
                    name: value
                    for name, value in entry.items()
                    if value is not None and name not in derived
                },
            )
            if given and not entry and int not in known.values():
                return {}
        if known is not None and not _has_names(entry, known):
            _refuse(
                f"state[{number}] has {', '.join(map(str, entry)) or 'nothing'}; the"
                f" optimizer remembers {', '.join(known) or 'nothing'}"
            )
        if known is None:
            return _copied(f"state[{number}]", entry, parameter)
        copied = {}
        for name, value in entry.items():
            where = f"state[{number}][{name!r}]"
            kind = known.get(name, type(value))
            if kind is int and isinstance(value, Tensor) and value.numel() == 1:
                # PyTorch counts in a tensor.
                value = int(value.item())
            same_shape = kind is not AnyShape
            kind = Tensor if kind is AnyShape else kind
            if not isinstance(value, kind) or isinstance(value, bool):
                _refuse(
                    f"{where} is of type {type(value).__name__}; it must be of type"
                    f" {kind.__name__}"
                )
            if isinstance(value, int) and kind is int and value < 0:
                _refuse(f"{where} is {value}; it must be at least 0")
            copied[name] = value
            if isinstance(value, Tensor):
                copied[name] = _copy_like(where, value, parameter, same_shape)
        return copied


def _copied(where: str, value: Any, parameter: Tensor) -> Any:
    """Return a value of a state that nothing is known of, with copies of tensors."""
    if isinstance(value, Tensor):
        return _copy_like(where, value, parameter, False)
    if isinstance(value, Mapping):
        return {
            name: _copied(f"{where}[{name!r}]", each, parameter)
            for name, each in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(
            _copied(f"{where}[{k}]", each, parameter) for k, each in enumerate(value)
        )
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Return whether something is a real number, of NumPy too, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _has_names(entry: Mapping[Any, object], known: StateSpec) -> bool:
    """Return whether a state has the entries that it must, and none that it may not."""
    needed = {name for name, kind in known.items() if kind is not AnyShape}
    return needed <= entry.keys() <= known.keys()


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
        # Users and schedulers keep options of their own in groups.
        if name in mine and not _is_like(value, mine[name]):
            _refuse(f"the option {name!r} is {value!r}; it must be like {mine[name]!r}")
    return options


def _is_like(value: object, known: object) -> bool:
    """Return whether an option is of the same type as the one it replaces."""
    if isinstance(known, bool):
        return value is None or isinstance(value, bool)
    if isinstance(known, Tensor):
        return is_number(value) or isinstance(value, Tensor)
    if is_number(known):
        return is_number(value) or (isinstance(value, Tensor) and value.numel() == 1)
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
    if not value.dtype.is_differentiable:
        raise DTypeError(
            f"load_state_dict: {where} is {value.dtype.name}; it must be of floats;"
            " nothing was loaded"
        )
    if value.dtype.is_complex and not parameter.dtype.is_complex:
        raise DTypeError(
            f"load_state_dict: {where} is {value.dtype.name}, its parameter"
            f" {parameter.dtype.name}; a part would be lost; nothing was loaded"
        )
    return value.detach().clone().to(device=parameter.device, dtype=parameter.dtype)
