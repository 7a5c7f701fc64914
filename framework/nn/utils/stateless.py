"""Calls of modules with other tensors for their parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...base import trace_hooks
from ...tensor.tensor import Tensor
from ..module import Module

_MISSING: Any = object()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Return a module's result with other tensors for its parameters and buffers.

    Parameters
    ----------
    module : Module
        It is as before after the call.
    parameter_and_buffer_dicts : dict, or sequence of dict
        Tensors by name, as in `named_parameters`; others stay as they are. Names that
        the module does not have are passed over.
    args : object or tuple
        Positional arguments; what is no tuple is the only one.
    kwargs : dict or None
        Keyword arguments.
    tie_weights : bool, default True
        Whether a parameter with several names is replaced under all of them.
    strict : bool, default False
        Whether all names have to be given, and no others.

    Raises
    ------
    RuntimeError
        With `strict`, if a name is none of the module's, or one is missing.
    ValueError
        If several dicts give one name, names of one parameter differ, or there are no
        dicts.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> state = {"weight": fw.ones((1, 2)), "bias": fw.zeros(1)}
    >>> fw.func.functional_call(model, state, fw.tensor([1.0, 2.0])).tolist()
    [3.0]
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        given = dict(parameter_and_buffer_dicts)
    else:
        if not isinstance(parameter_and_buffer_dicts, list | tuple):
            kind = type(parameter_and_buffer_dicts).__name__
            raise ValueError(
                f"functional_call: parameter_and_buffer_dicts is a {kind}; it must be a"
                " dict, or a list or tuple of dicts"
            )
        given = {}
        for each in parameter_and_buffer_dicts:
            again = sorted(given.keys() & each.keys())
            if again:
                raise ValueError(
                    f"functional_call: {', '.join(again)} is given by several dicts;"
                    " give each name once"
                )
            given.update(each)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _places(module: Module) -> dict[str, tuple[Module, str]]:
    """Return the owner and attribute of each parameter and buffer, by name."""
    found = {}
    for path, owner in module.named_modules():
        own: dict[str, object] = dict(
            owner.named_parameters(recurse=False, remove_duplicate=False)
        )
        own.update(owner.named_buffers(recurse=False, remove_duplicate=False))
        for name in own:
            found[f"{path}.{name}" if path else name] = owner, name
    return found


@contextmanager
def _replaced(
    module: Module, given: dict[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Give a module other tensors within a block."""
    places = _places(module)
    unknown = sorted(given.keys() - places.keys())
    if strict and unknown:
        raise RuntimeError(
            f"functional_call: {', '.join(unknown)} is no parameter or buffer of the"
            f" {type(module).__name__}; its names are {', '.join(places)}"
        )
    given = {name: each for name, each in given.items() if name in places}
    wanted = _with_tied(places, given) if tie_weights else given
    missing = sorted(places.keys() - wanted.keys())
    if strict and missing:
        raise RuntimeError(
            f"functional_call: {', '.join(missing)} is not given, and strict is True"
        )
    before = []
    trace_hooks.structure_changed()
    try:
        for name, tensor in wanted.items():
            owner, attribute = places[name]
            attributes = vars(owner)
            before.append((attributes, attribute, attributes.get(attribute, _MISSING)))
            attributes[attribute] = tensor
        yield
    finally:
        for attributes, attribute, value in reversed(before):
            if value is _MISSING:
                attributes.pop(attribute, None)
            else:
                attributes[attribute] = value
        trace_hooks.structure_changed()


def _with_tied(
    places: dict[str, tuple[Module, str]], given: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return tensors for all names of the parameters that are given by one."""
    names: dict[int, list[str]] = {}
    for name, (owner, attribute) in places.items():
        names.setdefault(id(getattr(owner, attribute)), []).append(name)
    wanted = dict(given)
    for tied in names.values():
        found = [given[name] for name in tied if name in given]
        if any(each is not found[0] for each in found):
            raise ValueError(
                f"functional_call: {', '.join(tied)} are one parameter, and given as"
                " different tensors; give one, or pass tie_weights=False"
            )
        if found:
            wanted.update(dict.fromkeys(tied, found[0]))
    return wanted
