"""Adapters of experts that a checkpoint has in two tensors, as the package peft writes.

`transformers` keeps the gates of all experts, and what these are multiplied with, in
one parameter `gate_up_proj` of (experts, 2 inner, width), and the way back in
`down_proj` of (experts, width, inner). The package adapts such a parameter
(`target_parameters`) by A of (experts * rank, columns), with a block of rows for each
expert, and B of (rows, rank * experts), in which the experts change fastest. Gate and
its factor so have one A. The adapter of a module's last parameter is that of the
module; those of others are within, at `base_layer`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .. import nn, ops
from ..base.errors import FileFormatError
from ..models.checkpoint import Checkpoint
from ..models.experts import Experts
from ..tensor.tensor import Tensor
from .grouped import LoRAGrouped

PARTS = {"gate_up_proj": ("gate", "up"), "down_proj": ("down",)}
"""Layers of `Experts` by the parameter of `transformers`, in the order of these."""

FACTORS = ("lora_A.weight", "lora_B.weight")


def parameters_of_experts(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the layers that are part of each fused parameter, by its name.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    dict of str to tuple of str
        As "mlp.experts.gate_up_proj": ("mlp.experts.gate", "mlp.experts.up"). The names
        are those of `transformers`, whose Mixtral has "mlp", too.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Experts):
            theirs = name.replace("block_sparse_moe", "mlp")
            for parameter, layers in PARTS.items():
                found[f"{theirs}.{parameter}"] = tuple(
                    f"{name}.{layer}" for layer in layers
                )
    return found


def targeted(model: nn.Module, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return those of `parameters_of_experts` that names, or their ends, are of.

    Raises
    ------
    KeyError
        With a name that is of none.
    """
    known = parameters_of_experts(model)
    for name in names:
        if not any(f".{each}".endswith(f".{name}") for each in known):
            raise KeyError(name)
    return {
        each: layers
        for each, layers in known.items()
        if any(f".{each}".endswith(f".{name}") for name in names)
    }


def tie(model: nn.Module, chosen: Mapping[str, tuple[str, ...]]) -> None:
    """Give the layers of each fused parameter one A, and note that they are fused."""
    for names in chosen.values():
        layers = [_layer(model, name) for name in names]
        for layer in layers:
            layer.is_fused = True
            layer.lora_A.weight = layers[0].lora_A.weight


def _layer(model: nn.Module, name: str) -> LoRAGrouped:
    """Return an adapter of experts."""
    found = model.get_submodule(name)
    assert isinstance(found, LoRAGrouped)
    return found


def _places(chosen: Collection[str]) -> dict[str, str]:
    """Return where the adapter of each parameter is in a file."""
    of_module: dict[str, list[str]] = {}
    for each in chosen:
        module, _, parameter = each.rpartition(".")
        of_module.setdefault(module, []).append(parameter)
    found = {}
    for module, parameters in of_module.items():
        for depth, parameter in enumerate(reversed(sorted(parameters, key=_order))):
            found[f"{module}.{parameter}"] = module + ".base_layer" * depth
    return found


def _order(parameter: str) -> int:
    return [*PARTS].index(parameter)


def split(
    model: nn.Module,
    checkpoint: Checkpoint,
    chosen: Mapping[str, tuple[str, ...]],
    prefix: str,
) -> Checkpoint:
    """Return a checkpoint with a stack of factors for each layer of experts.

    Parameters
    ----------
    model : nn.Module
    checkpoint : Checkpoint
    chosen : mapping of str to tuple of str
        What of the model `targeted` found.
    prefix : str
        What all names begin with.

    Raises
    ------
    FileFormatError
        If a factor is missing, or its shape is of another number of experts.
    """
    sources: set[str] = set()
    made: dict[str, Tensor] = {}
    for parameter, place in _places(chosen).items():
        layers = chosen[parameter]
        module = model.get_submodule(layers[0].rpartition(".")[0])
        assert isinstance(module, Experts)
        experts = module.count
        names = [f"{prefix}{place}.{each}" for each in FACTORS]
        for at, name in enumerate(names):
            if name not in checkpoint:
                raise FileFormatError(f"{checkpoint.path}: `{name}` is missing")
            shape = checkpoint.shape(name)
            whole = experts if at == 0 else len(layers)
            if len(shape) != 2 or shape[at] % experts or shape[0] % whole:
                raise FileFormatError(
                    f"{checkpoint.path}: `{name}` is {shape}; it must be a matrix of"
                    f" {experts} experts"
                )
        first, second = (checkpoint[name] for name in names)
        first = first.reshape(experts, -1, first.shape[1])
        second = second.reshape(second.shape[0], -1, experts).permute(2, 0, 1)
        parts = ops.chunk(second, len(layers), 1)
        for layer, part in zip(layers, parts, strict=True):
            made[f"{prefix}{layer}.{FACTORS[0]}"] = first
            made[f"{prefix}{layer}.{FACTORS[1]}"] = part
        sources.update(names)
    return checkpoint.replaced(sources, made)


def joined(
    model: nn.Module, chosen: Mapping[str, tuple[str, ...]]
) -> dict[str, Tensor]:
    """Return the factors of fused parameters, as a file has them."""
    found: dict[str, Tensor] = {}
    for parameter, place in _places(chosen).items():
        factors = [_layer(model, name).factors() for name in chosen[parameter]]
        first = factors[0][FACTORS[0]].detach()
        second = ops.cat([each[FACTORS[1]].detach() for each in factors], 1)
        found[f"{place}.{FACTORS[0]}"] = first.reshape(-1, first.shape[-1])
        found[f"{place}.{FACTORS[1]}"] = second.permute(1, 2, 0).reshape(
            second.shape[1], -1
        )
    return found


def fused_of(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return those of `parameters_of_experts` that have a fused adapter."""
    return {
        parameter: layers
        for parameter, layers in parameters_of_experts(model).items()
        if getattr(model.get_submodule(layers[0]), "is_fused", False)
    }
