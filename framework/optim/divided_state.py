"""States of models and optimizers whose parameters are divided among ranks.

Each rank has the parts that it has, marked as such (see `nn.divided`), under the names
that the whole model gives its parameters: whatever wraps the model, and however many
ranks there are. So one rank's state may be read by another number of ranks. The ranks
of a `Pipeline` have different parameters, and their optimizers' groups are parts of
those of one optimizer of the whole model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..base.device import CPU
from ..base.dtype import as_dtype
from ..base.errors import StateError
from ..base.shape import Layout
from ..io.part_files import Keys, inner_keys, leaves, nested
from ..nn.data_parallel import DataParallel
from ..nn.divided import TensorShard, copy_mark, owner_of, part_of
from ..nn.fsdp.wrapper import FSDP, state_kind
from ..nn.module import Module
from ..nn.pipeline import Pipeline
from ..nn.state_dict import IncompatibleKeys
from ..tensor.tensor import Tensor
from .optimizer import Optimizer

if TYPE_CHECKING:
    from ..communication.group import Group

State = dict[str, Any]


class Reader(Protocol):
    """What states are read from: a folder (`PartReader`), or memory."""

    shapes: dict[Keys, tuple[int, ...]]
    objects: dict[Keys, Any]

    def read(self, key: Keys, part: TensorShard | None = None) -> Tensor:
        """Return a tensor, or a part of it."""
        ...


class MemoryReader:
    """Reader of a state of whole tensors; see `Reader`."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        found = dict(leaves(state))
        self._tensors = {k: x for k, x in found.items() if isinstance(x, Tensor)}
        self.objects = {k: x for k, x in found.items() if k not in self._tensors}
        self.shapes = {key: tuple(x.shape) for key, x in self._tensors.items()}

    def read(self, key: Keys, part: TensorShard | None = None) -> Tensor:
        """Return a tensor, or a part of it."""
        whole = self._tensors[key]
        if part is None or tuple(whole.shape) != part.shape:
            return whole
        found: Tensor = part.of(whole.detach())
        return found


def bare(model: Module) -> Module:
    """Return the module within those that exchange its gradients."""
    while isinstance(model, DataParallel | FSDP):
        model = model.module
    return model


def group_of_state(model: Module) -> Group | None:
    """Return the ranks that have the state of a model together; None if one has all.

    Parameters
    ----------
    model : Module
        Also within `DataParallel` or `FSDP`.
    """
    inner = bare(model)
    if isinstance(inner, Pipeline) and inner.group.size > 1:
        return inner.group
    return owner_of(inner.parameters())


def model_state(model: Module) -> State:
    """Return what a rank has of a model's state, by name; parts are marked.

    Parameters
    ----------
    model : Module
        Also within `DataParallel` or `FSDP`, which add nothing to names.
    """
    inner = bare(model)
    with state_kind(inner, "sharded"):
        found = inner.state_dict(keep_vars=True)
    state = {}
    for name, each in found.items():
        if isinstance(each, Tensor):
            state[name] = each.detach()
            copy_mark(each, state[name])
        else:
            state[name] = each
    return state


def load_model_state(
    model: Module, reader: Reader, keys: Keys = (), strict: bool = True
) -> IncompatibleKeys:
    """Load a model's state; each rank takes the parts that it has.

    Parameters
    ----------
    model : Module
    reader : Reader
    keys : tuple
        Where the state is.
    strict : bool, default True
        Whether names must be the same.
    """
    own = model_state(model)
    found: State = {}
    for key in [*reader.shapes, *reader.objects]:
        if key[: len(keys)] != keys or len(key) != len(keys) + 1:
            continue
        name = str(key[-1])
        if key in reader.objects:
            found[name] = reader.objects[key]
        else:
            part = part_of(own[name]) if isinstance(own.get(name), Tensor) else None
            _check_shape(name, reader.shapes[key], part)
            found[name] = reader.read(key, part)
    inner = bare(model)
    return inner.load_state_dict(found, strict=strict)


def _check_shape(name: str, shape: tuple[int, ...], part: TensorShard | None) -> None:
    if part is not None and shape not in (part.shape, part.own_shape):
        raise StateError(
            f"load_state_dict: `{name}` is {shape}, the module's is {part.shape};"
            " shapes must be equal"
        )


def parameter_names(model: Module) -> dict[int, str]:
    """Return the names of a model's parameters in its state, by `id`."""
    inner = bare(model)
    with state_kind(inner, "sharded"):
        state = inner.state_dict(keep_vars=True)
    names: dict[int, str] = {}
    for name, each in state.items():
        names.setdefault(id(each), name)
    return names


def group_names(model: Module, optimizer: Optimizer) -> list[list[str]]:
    """Return the names of the parameters of each group of an optimizer.

    Raises
    ------
    ValueError
        If one is none of the model's.
    """
    names = parameter_names(model)
    found: list[list[str]] = []
    for number, group in enumerate(optimizer.param_groups):
        found.append([])
        for each in group["params"]:
            if id(each) not in names:
                raise ValueError(
                    f"get_optimizer_state_dict: group {number} of the optimizer has a"
                    f" parameter of shape {tuple(each.shape)} that is none of the"
                    " module's; pass the module that the optimizer was made for"
                )
            found[-1].append(names[id(each)])
    return found


def shared_names(model: Module) -> dict[str, str]:
    """Return first names of parameters that another rank has, too; see `Pipeline`."""
    inner = bare(model)
    return inner.shared_names() if isinstance(inner, Pipeline) else {}


def _names_of_all(model: Module, names: list[list[str]]) -> list[list[str]]:
    """Return the names of each group's parameters on all ranks, each once, in order.

    All ranks of a `Pipeline` call it.

    Raises
    ------
    StateError
        If their optimizers have other numbers of groups.
    """
    inner = bare(model)
    if not isinstance(inner, Pipeline) or inner.group.size == 1:
        return names
    shared = inner.shared_names()
    own = [[name for name in group if name not in shared] for group in names]
    every = inner.group.gather_objects(own)
    if len({len(each) for each in every}) > 1:
        raise StateError(
            "optimizer_state: the optimizers of the stages have"
            f" {[len(each) for each in every]} groups, by rank; a Pipeline's must have"
            " the same number, if need be without parameters"
        )
    return [[name for part in parts for name in part] for parts in zip(*every)]


def optimizer_state(model: Module, optimizer: Optimizer) -> State:
    """Return what a rank has of an optimizer's state, by names of parameters.

    Parameters
    ----------
    model : Module
        That has the parameters. All ranks of a `Pipeline` call this.
    optimizer : Optimizer

    Returns
    -------
    dict
        "state" by name, with parts marked, and "param_groups" with names as "params":
        of a `Pipeline` those of all ranks.

    Raises
    ------
    StateError
        If the stages of a `Pipeline` have other numbers of groups.
    ValueError
        If a parameter is none of the model's.
    """
    names = group_names(model, optimizer)
    whole = _names_of_all(model, names)
    given = optimizer.state_dict()
    state: State = {}
    groups = []
    parts = zip(names, whole, given["param_groups"], optimizer.param_groups)
    for own, every, group, real in parts:
        for name, number, parameter in zip(own, group["params"], real["params"]):
            if number in given["state"]:
                state[name] = {
                    key: marked(value, parameter)
                    for key, value in given["state"][number].items()
                }
        groups.append({**group, "params": every})
    return {"state": state, "param_groups": groups}


def marked(value: Any, parameter: Tensor) -> Any:
    """Return a value of a parameter's state, marked as a part as that is."""
    if not isinstance(value, Tensor):
        return value
    found = value.detach()
    if value.shape == parameter.shape:
        copy_mark(parameter, found)
    return found


def load_optimizer_state(
    model: Module, optimizer: Optimizer, reader: Reader, keys: Keys = ()
) -> None:
    """Load an optimizer's state; each rank takes the parts that it has.

    Parameters
    ----------
    model : Module
        All ranks of a `Pipeline` call this.
    optimizer : Optimizer
    reader : Reader
        Of what `optimizer_state` gave, or of a whole state with numbers for names.
    keys : tuple
        Where the state is.

    Raises
    ------
    StateError
        If the groups have other parameters; nothing is changed then.
    """
    names = group_names(model, optimizer)
    whole = _names_of_all(model, names)
    given = reader.objects.get((*keys, "param_groups"))
    saved = [list(group["params"]) for group in given or ()]
    by_number = saved and all(isinstance(x, int) for group in saved for x in group)
    if [len(x) for x in saved] != [len(x) for x in whole] or (
        not by_number and saved != whole
    ):
        raise StateError(
            f"load_state_dict: the state has the parameters {saved}, the optimizer"
            f" {whole}; they must be equal"
        )
    titles = {
        name: title
        for group, given_names in zip(whole, saved)
        for name, title in zip(group, given_names)
    }
    shared = shared_names(model)
    numbers = iter(range(sum(map(len, names))))
    own = [[next(numbers) for _ in group] for group in names]
    state: dict[int, State] = {}
    for group, places, params in zip(names, own, optimizer.param_groups):
        for name, number, parameter in zip(group, places, params["params"]):
            title = titles[shared.get(name, name)]
            found = _entry(reader, (*keys, "state", title), parameter)
            if found:
                state[number] = found
    groups = [{**group, "params": own[k]} for k, group in enumerate(given or ())]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _entry(reader: Reader, keys: Keys, parameter: Tensor) -> State:
    """Return the state of a parameter, {} where there is none of this rank."""
    part = part_of(parameter)
    if part is not None and not parameter.numel():
        return {}
    found: State = {}
    for key, value in reader.objects.items():
        if key[:-1] == keys:
            found[str(key[-1])] = value
    for key, shape in reader.shapes.items():
        if key[:-1] == keys:
            whole = part is not None and shape == part.shape
            found[str(key[-1])] = reader.read(key, part if whole else None)
    return found


def parts_for(values: Mapping[str, Any], parameter: Tensor) -> State:
    """Return the state of a parameter with a rank's parts of whole tensors.

    Parameters
    ----------
    values : mapping of str to object
        Whole, or parts already.
    parameter : Tensor
        Where it is empty, the state is, too.
    """
    part = part_of(parameter)
    if part is None:
        return dict(values)
    if not parameter.numel():
        return {}
    return {
        key: part.of(each.detach())
        if isinstance(each, Tensor) and tuple(each.shape) == part.shape
        else each
        for key, each in values.items()
    }


def gathered(state: Mapping[str, Any], group: Group | None) -> Any:
    """Return a state with whole tensors on the host; all ranks of a group call it.

    Parameters
    ----------
    state : mapping
        Nested dictionaries, of which parts are marked.
    group : Group or None
        That of the parts (see `owner_of`); None of a state without parts.
    """
    if group is None:
        return state
    own = dict(leaves(state))
    having: dict[Keys, list[int]] = {}
    for rank, each in enumerate(group.gather_objects(list(own))):
        for key in each:
            having.setdefault(key, []).append(rank)
    inner = inner_keys(having)
    return nested(
        {
            key: _gathered_leaf(own.get(key), group, ranks)
            for key, ranks in having.items()
            if key not in inner
        }
    )


def _gathered_leaf(value: Any, group: Group, having: list[int]) -> Any:
    """Return a leaf, which some ranks have, as all have it together."""
    sent = None
    if isinstance(value, Tensor):
        part = part_of(value)
        # Whole tensors are alike on all ranks that have them, and are not sent else.
        if part is not None or (len(having) < group.size and group.rank == having[0]):
            whole = TensorShard(tuple(value.shape), None, ((0, value.numel()),))
            sent = part or whole, value.dtype.name, value.stored()
    tensor = isinstance(value, Tensor)
    found = group.gather_objects((sent, None if tensor else value))
    parts = [each for each, _ in found if each is not None]
    if parts:
        return _assembled(parts)
    if tensor:
        return value.detach().cpu() if value.is_gpu else value.detach().clone()
    return next((x for _, x in found if x is not None), None)


def _assembled(parts: list[tuple[TensorShard, str, np.ndarray]]) -> Tensor:
    shape = parts[0][0].shape
    whole = np.empty(shape, parts[0][2].dtype)
    for part, _, data in parts:
        part.put(whole, data)
    flat, dtype = whole.reshape(-1), as_dtype(parts[0][1])
    return Tensor.from_stored(flat, Layout.contiguous(shape), CPU, dtype)
