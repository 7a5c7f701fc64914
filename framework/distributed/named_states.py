"""States of modules and optimizers in which parameters have their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..func.tree import tree_map
from ..nn.module import Module
from ..nn.state_dict import IncompatibleKeys
from ..optim.divided_state import (
    MemoryReader,
    bare,
    gathered,
    group_names,
    group_of_state,
    load_model_state,
    model_state,
    optimizer_state,
    parts_for,
    shared_names,
)
from ..optim.optimizer import Optimizer
from ..tensor.tensor import Tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

State = dict[str, Any]
Optimizers = Optimizer | Iterable[Optimizer]


@dataclass
class StateDictOptions:
    """What a state has, and how it is loaded.

    Parameters
    ----------
    full_state_dict : bool
        Whether tensors are whole, on the host; all ranks then call. Else a rank has its
        parts of tensors that are divided, which `checkpoint.save` joins.
    broadcast_from_rank0 : bool
        Whether the state that rank 0 loads counts on all ranks.
    cpu_offload : bool
        Whether the tensors of a state are moved to the host.
    ignore_frozen_params : bool
        Whether parameters that require no gradient are left out.
    keep_submodule_prefixes : bool
        Whether names of a submodule's parameters are those in the whole module.
    strict : bool
        Whether names must be the same where a module's state is loaded.
    flatten_optimizer_state_dict : bool
        Whether an optimizer's state is one dictionary without others in it.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _moved(state: State, options: StateDictOptions) -> State:
    if not options.cpu_offload:
        return state
    moved: State = tree_map(
        lambda each: each.detach().cpu() if isinstance(each, Tensor) else each, state
    )
    return moved


def get_model_state_dict(
    model: Module,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> State:
    """Return a module's state.

    Parameters
    ----------
    model : Module
    submodules : set of Module, optional
        Modules within it whose state alone is returned.
    options : StateDictOptions, optional

    Returns
    -------
    dict of str to Tensor
    """
    options = options or StateDictOptions()
    state = model_state(model)
    if options.full_state_dict:
        state = gathered(state, group_of_state(model))
    inner = bare(model)
    if options.ignore_frozen_params:
        for name, parameter in inner.named_parameters(remove_duplicate=False):
            if not parameter.requires_grad:
                state.pop(name, None)
    if submodules:
        prefixes = [
            f"{name}." for name, each in inner.named_modules() if each in submodules
        ]
        state = {
            name if options.keep_submodule_prefixes else name[len(prefix) :]: value
            for prefix in prefixes
            for name, value in state.items()
            if name.startswith(prefix)
        }
    return _moved(state, options)


def set_model_state_dict(
    model: Module,
    model_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load a module's state, and return the names that are missing or too many.

    Raises
    ------
    RuntimeError
        If names or shapes are wrong, as `Module.load_state_dict` has it.
    """
    options = options or StateDictOptions()
    given = _shared(model, model_state_dict, options)
    return load_model_state(model, MemoryReader(given), (), options.strict)


def _shared(model: Module, state: Any, options: StateDictOptions) -> Any:
    """Return a state, or that of rank 0."""
    group = getattr(model, "group", None) or group_of_state(model)
    if group is None or not options.broadcast_from_rank0:
        return state
    return group.broadcast_object(state)


def _optimizers(optimizers: Optimizers) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> State:
    """Return the state of optimizers, by the names of a module's parameters.

    Parameters
    ----------
    model : Module
    optimizers : Optimizer, or several
        Of the module's parameters.
    submodules : set of Module, optional
        Modules whose parameters alone are in it.
    options : StateDictOptions, optional

    Returns
    -------
    dict
        `state` by parameter and `param_groups`, or with
        `flatten_optimizer_state_dict` one dictionary with names as
        `state.0.weight.exp_avg` and `param_groups.0.weight.lr`.

    Raises
    ------
    ValueError
        If an optimizer has a parameter that is not the module's.

    Notes
    -----
    Parameters that have not been updated yet have no state; PyTorch makes one by a
    step whose learning rate is 0.
    """
    options = options or StateDictOptions()
    wanted = set(get_model_state_dict(model, submodules=submodules))
    ranks = group_of_state(model) if options.full_state_dict else None
    own_names: dict[str, str] = {}
    if ranks is not None:
        wanted.update(*ranks.gather_objects(list(wanted)))
    else:
        # A rank knows what it shares with one before it by a name of its own.
        own_names = {first: name for name, first in shared_names(model).items()}
    state: State = {}
    groups: list[State] = []
    for optimizer in _optimizers(optimizers):
        found = optimizer_state(model, optimizer)
        if options.full_state_dict:
            found = gathered(found, ranks)
        for group in found["param_groups"]:
            every = [own_names.get(name, name) for name in group["params"]]
            names = [name for name in every if name in wanted]
            for name in names:
                if name in found["state"]:
                    state[name] = found["state"][name]
            groups.append({**group, "params": names})
    if options.flatten_optimizer_state_dict:
        return _moved(_flat(state, groups), options)
    return _moved({"state": state, "param_groups": groups}, options)


def _flat(state: State, groups: list[State]) -> State:
    flat = {
        f"state.{name}.{key}": value
        for name, values in state.items()
        for key, value in values.items()
    }
    for group in groups:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    flat[f"param_groups.{name}.{key}"] = value
    return flat


def _below(flat: Mapping[str, Any], prefix: str) -> State:
    return {
        key[len(prefix) :]: value
        for key, value in flat.items()
        if key.startswith(prefix)
    }


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load the state of optimizers that `get_optimizer_state_dict` returned.

    Raises
    ------
    KeyError
        If the state has no options for a parameter of an optimizer.
    ValueError
        If an optimizer has a parameter that is not the module's.
    """
    options = options or StateDictOptions()
    flat: Mapping[str, Any] = _shared(model, optim_state_dict, options)
    if "param_groups" in flat:
        flat = _flat(flat["state"], flat["param_groups"])
    shared = shared_names(model)
    for optimizer in _optimizers(optimizers):
        state: dict[int, State] = {}
        groups: list[State] = []
        count = 0
        for names, own in zip(group_names(model, optimizer), optimizer.param_groups):
            numbers = list(range(count, count + len(names)))
            count += len(names)
            for name, number, parameter in zip(names, numbers, own["params"]):
                given = _below(flat, f"state.{name}.")
                if not given:
                    given = _below(flat, f"state.{shared.get(name, name)}.")
                values = parts_for(given, parameter)
                if values:
                    state[number] = values
            titles = [shared.get(name, name) for name in names]
            # A stage may have nothing of a group.
            options_of = _group(flat, titles) if names else own
            groups.append({**options_of, "params": numbers})
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _group(flat: Mapping[str, Any], names: list[str]) -> State:
    """Return the options of a group, which are those of its first parameter."""
    for name in names:
        options = _below(flat, f"param_groups.{name}.")
        if options:
            return options
    raise KeyError(
        f"set_optimizer_state_dict: the state has no options of the parameters {names};"
        " pass one of an optimizer that has them"
    )


def get_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[State, State]:
    """Return the states of a module and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(
            model, optimizers, submodules=submodules, options=options
        ),
    )


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load the states of a module and of its optimizers."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
