"""Transformers whose projections are divided among the ranks of a group."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import DistributedError
from .attention import MultiheadAttention
from .data_parallel import check_alike, checked_group, take_values
from .linear import Linear
from .module import Module
from .parallel_attention import ParallelMultiheadAttention, check_heads
from .parallel_linear import ColumnParallelLinear, ParallelLinear, RowParallelLinear
from .parallel_module import ParallelModule, Sections

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["tensor_parallel"]

Plan = Mapping[str, str | tuple[str, Sections]]
"""Kinds of modules by patterns of names."""

PLAN: Plan = {
    "*c_attn": ("column", 3),
    "*qkv_proj": ("column", 3),
    "*gate_up_proj": ("column", 2),
    **dict.fromkeys(("*q_proj", "*k_proj", "*v_proj"), "column"),
    **dict.fromkeys(("*gate_proj", "*up_proj", "*linear1", "*c_fc"), "column"),
    **dict.fromkeys(("*o_proj", "*down_proj", "*linear2", "*c_proj"), "row"),
    **dict.fromkeys(("*attn", "*attention"), "heads"),
    **dict.fromkeys(("*q_norm", "*k_norm"), "sum"),
}
"""Plan for transformers whose heads follow from the layers' sizes.

Those of `models.llama` and its relatives, `models.phi3`, `models.gpt2`, and
`TransformerEncoderLayer` and `TransformerDecoderLayer`.
"""

_LINEAR: dict[str, type[ParallelLinear]] = {
    "column": ColumnParallelLinear,
    "row": RowParallelLinear,
}

_KINDS = (*_LINEAR, "heads", "sum")


def tensor_parallel(
    module: Module, group: Group | None = None, plan: Plan | None = None
) -> Module:
    """Divide the linear layers of a transformer among ranks, in place.

    Parameters
    ----------
    module : Module
        The same on all ranks; the weights of rank 0 count, also of what stays whole.
    group : Group, optional
        By default that of all processes.
    plan : mapping of str to str or tuple, optional
        Kinds by patterns of names (`fnmatch`), of which the first that fits counts. A
        layer of "column" feeds one of "row", with nothing between them that needs all
        features. `("column", sections)` is for a layer that computes projections side
        by side: see `ColumnParallelLinear`; sizes that the layer has as its attribute
        `sections` count first. "heads" divides a `MultiheadAttention`. "sum" is for
        modules with parameters between the two, which ranks use on their own features,
        so that gradients are summed over ranks. By default attention and feed-forward
        layers are divided of models as `models.llama`, `models.phi3` and `models.gpt2`
        have them, and of `TransformerEncoderLayer` and `TransformerDecoderLayer`.

    Returns
    -------
    Module
        `module`. Its state has this rank's parts; see `whole_state_dict`.

    Raises
    ------
    DistributedError
        If another rank's module has other parameters or buffers, or its plan is
        another; nothing is changed then, nor by the others.
    ShapeError
        If the ranks do not divide what is to be divided, as the heads of an attention.
    ValueError
        If the plan fits no layer, or has another kind.

    Notes
    -----
    Make the optimizer afterwards: parameters are others. All ranks call the module with
    the same batch. Ranks must divide the heads of keys and values, or reshaping raises.
    """
    group = checked_group("tensor_parallel", group)
    plan = PLAN if plan is None else plan
    found = _chosen(module, plan)
    for name, choice in found.items():
        _check(f"tensor_parallel: {name}", choice, group)
    if group.size > 1:
        _check_plans(group, found)
        named = [*module.named_parameters(), *module.named_buffers()]
        check_alike("tensor_parallel", group, named)
        divided = {id(x) for each in found.values() for x in each.layer.parameters()}
        take_values(group, [each for _, each in named if id(each) not in divided])
    for name, choice in found.items():
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, _part(choice, group))
    if group.size > 1:
        for name, part in module.named_modules():
            if _kind_of(name, plan)[0] == "sum":
                part.register_forward_pre_hook(_Sums(group))
    return module


_SUMMED = "_is_summed"
"""Attribute of parameters whose gradients are sums already."""


class _Sums:
    """Lets the gradients of a module's parameters be sums over ranks.

    Before each call, as others may have been assigned.
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def __call__(self, module: Module, _: Any) -> None:
        for each in module.parameters():
            if each.requires_grad and not hasattr(each, _SUMMED):
                each.register_hook(self.group.all_sum)
                setattr(each, _SUMMED, True)


class _Choice(NamedTuple):
    """A module to divide, and how."""

    layer: Any
    kind: str
    sections: Sections


def _kind_of(name: str, plan: Plan) -> tuple[str, Sections]:
    """Return the kind of a module, "" if it has none, and the sections."""
    kinds = (kind for each, kind in plan.items() if fnmatchcase(name, each))
    kind = next(kinds, "")
    return (kind, 1) if isinstance(kind, str) else (kind[0], kind[1])


def _chosen(module: Module, plan: Plan) -> dict[str, _Choice]:
    """Return the modules that a plan divides, by name."""
    for given in plan.values():
        kind = given if isinstance(given, str) else given[0]
        if kind not in _KINDS:
            raise ValueError(
                f"tensor_parallel: the plan has kind {kind!r}; it must be 'column',"
                " 'row', 'heads' or 'sum'"
            )
    found: dict[str, _Choice] = {}
    for name, layer in module.named_modules():
        kind, sections = _kind_of(name, plan)
        if name and _fits(layer, kind):
            found[name] = _Choice(layer, kind, getattr(layer, "sections", sections))
    if not found:
        raise ValueError(
            "tensor_parallel: the plan fits no layer of"
            f" {type(module).__name__}; give one with the names of its layers"
        )
    return found


def _fits(layer: Module, kind: str) -> bool:
    if kind == "heads":
        return type(layer) is MultiheadAttention
    linear = type(layer) is Linear or hasattr(type(layer), "weight_is_transposed")
    return linear and kind in _LINEAR


def _check(where: str, choice: _Choice, group: Group) -> None:
    """Raise `ShapeError` if ranks do not divide a layer."""
    if choice.kind == "heads":
        check_heads(where, choice.layer, group)
    else:
        kind = _LINEAR[choice.kind]
        kind.sizes_of(where, choice.layer, choice.sections, group)


def _check_plans(group: Group, found: Mapping[str, _Choice]) -> None:
    """Raise `DistributedError` if another rank divides other layers."""
    own = [f"{name}: {kind} {sections}" for name, (_, kind, sections) in found.items()]
    every = group.gather_objects(own)
    for rank, each in enumerate(every):
        if each != every[0]:
            differing = sorted({*each} ^ {*every[0]})
            raise DistributedError(
                f"tensor_parallel: ranks 0 and {rank} divide different layers:"
                f" {', '.join(differing)}; all ranks must have the same plan"
            )


def _part(choice: _Choice, group: Group) -> ParallelModule:
    """Return this rank's part of a module."""
    if choice.kind == "heads":
        return ParallelMultiheadAttention(choice.layer, group)
    options = {"sections": choice.sections} if choice.kind == "column" else {}
    made: ParallelModule = _LINEAR[choice.kind].from_linear(
        choice.layer, group, **options
    )
    return made
