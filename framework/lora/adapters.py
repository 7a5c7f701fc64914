"""Adapters of a model: added, merged into its weights, removed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from vkbackend.errors import ArgumentError

from .. import nn
from ..base.validation import as_int
from .fused import parameters_of_experts, targeted, tie
from .grouped import GROUPED, LoRAGrouped, names_of_experts
from .layers import (
    EMBEDDING,
    LINEAR,
    QUANTIZED,
    LoRAEmbedding,
    LoRALayer,
    LoRALinear,
    Settings,
)

LAYERS = (*LINEAR, *GROUPED, *EMBEDDING)
"""Layers that have adapters."""

Targets = str | Collection[str] | Callable[[str, nn.Module], bool]


def add(
    model: nn.Module,
    rank: int = 16,
    alpha: float = 32.0,
    dropout: float = 0.0,
    targets: Targets = "all-linear",
    rslora: bool = False,
    target_parameters: Collection[str] = (),
) -> tuple[str, ...]:
    """Put adapters around layers of a model, and freeze its own parameters.

    Parameters
    ----------
    model : nn.Module
        Its `Linear`, `QLinear`, `GroupedLinear`, `QGroupedLinear` (experts),
        `Embedding`, `QEmbedding`, and the `Conv1D` of GPT-2, are replaced where they
        are targets.
    rank : int, default 16
        Rows of A and columns of B.
    alpha : float, default 32
        The product B A is multiplied with alpha / rank.
    dropout : float, default 0
        Probability that an element of a linear adapter's input is 0 while training.
    targets : str, collection of str, or callable, default "all-linear"
        All linear layers but the head "lm_head"; or names, or the ends of names after a
        dot, of experts also those of checkpoints, as "gate_proj"; or a regular
        expression for whole names; or a function of name and layer that returns whether
        it is one.
    rslora : bool, default False
        Whether it is alpha / sqrt(rank), as of rank-stabilised adapters (Kalajdzievski
        2023, arXiv:2312.03732).
    target_parameters : collection of str
        Names of experts' parameters as `transformers` has them, or their ends after a
        dot: "gate_up_proj", whose two halves have one A, and "down_proj". The file has
        an adapter of each, not of each expert. `targets` are of no experts then, and
        may be empty.

    Returns
    -------
    tuple of str
        Names of the layers that have adapters now.

    Raises
    ------
    ArgumentError
        If a setting is out of its range, no layer is a target or one cannot have an
        adapter, the model has adapters, or is a layer itself; or there is no such
        parameter, or dropout beside one.

    Notes
    -----
    Adapters are float32 for weights of fewer bits. Their names are those of the package
    peft: "q_proj.base_layer.weight", "q_proj.lora_A.weight".

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> fw.lora.add(model, rank=2, targets=["2"])
    ('2',)
    >>> [name for name, each in model.named_parameters() if each.requires_grad]
    ['2.lora_A.weight', '2.lora_B.weight']
    """
    settings = _settings(rank, alpha, dropout, rslora)
    if isinstance(model, LAYERS):
        raise ArgumentError(
            f"lora.add: the model is a {type(model).__name__}; it must be a module"
            " with layers, for they are replaced"
        )
    known = next(layers_of(model), None)
    if known is not None:
        raise ArgumentError(
            f"lora.add: `{known[0]}` has an adapter; a model has one set of them: train"
            " those, or take them away with lora.remove"
        )
    fused = _fused(model, target_parameters, settings)
    chosen = _chosen(model, targets, fused)
    put(model, chosen, dict.fromkeys(chosen, settings))
    tie(model, fused)
    return tuple(chosen)


def _fused(
    model: nn.Module, parameters: Collection[str], settings: Settings
) -> dict[str, tuple[str, ...]]:
    """Return the fused parameters that are to have adapters, with their layers."""
    if isinstance(parameters, str):
        raise ArgumentError(
            f"lora.add: target_parameters is {parameters!r}; it must be a list of names"
        )
    try:
        found = targeted(model, parameters)
    except KeyError as error:
        raise ArgumentError(
            f"lora.add: target_parameters has {error}; of the {type(model).__name__}"
            f" there can be {', '.join(parameters_of_experts(model)) or 'none'}"
        ) from error
    if found and settings.dropout:
        raise ArgumentError(
            f"lora.add: dropout is {settings.dropout}; with target_parameters it must"
            " be 0"
        )
    return found


def _settings(rank: int, alpha: float, dropout: float, rslora: bool) -> Settings:
    rank = as_int("lora.add: rank", rank)
    if rank < 1:
        raise ArgumentError(f"lora.add: rank is {rank}; it must be at least 1")
    if not 0 <= dropout < 1:
        raise ArgumentError(
            f"lora.add: dropout is {dropout}; it must be at least 0 and below 1"
        )
    if not abs(alpha) < float("inf"):
        raise ArgumentError(f"lora.add: alpha is {alpha}; it must be a finite number")
    return Settings(rank, float(alpha), float(dropout), bool(rslora))


def _chosen(
    model: nn.Module, targets: Targets, fused: Mapping[str, tuple[str, ...]]
) -> dict[str, nn.Module]:
    """Return the layers that are to have adapters, by name."""
    inner = {
        name: model.get_submodule(name) for each in fused.values() for name in each
    }
    if inner and not targets:
        return inner
    if callable(targets):
        matches = targets
    elif targets == "all-linear":
        matches = _is_inner_linear
    elif isinstance(targets, str):
        pattern = re.compile(targets)
        matches = lambda name, layer: bool(pattern.fullmatch(name))  # noqa: E731
    else:
        ends = tuple(targets)
        matches = lambda name, layer: any(  # noqa: E731
            f".{name}".endswith(f".{end}") for end in ends
        )
    experts = names_of_experts(model)
    chosen = {
        name: layer
        for name, layer in model.named_modules()
        if name and any(matches(each, layer) for each in (name, *experts.get(name, ())))
        if not (inner and name in experts)
    }
    for name, layer in chosen.items():
        problem = _reason_against(layer)
        if problem:
            raise ArgumentError(
                f"lora.add: `{name}` is a {type(layer).__name__}{problem}; targets must"
                f" be {', '.join(kind.__name__ for kind in LAYERS)}"
            )
    if not chosen:
        layers = [name for name, each in model.named_modules() if _is_layer(each)]
        raise ArgumentError(
            f"lora.add: no layer is a target of {targets!r}; the model's"
            f" {len(layers)} layers begin with {layers[:3]}"
        )
    return chosen | inner


def _is_layer(layer: nn.Module) -> bool:
    """Return whether a module is of a class of which instances are replaced."""
    return type(layer) in LAYERS


def _is_inner_linear(name: str, layer: nn.Module) -> bool:
    is_linear = type(layer) in LINEAR + GROUPED
    return is_linear and name.rpartition(".")[2] != "lm_head"


def _reason_against(layer: nn.Module) -> str:
    """Return why a layer cannot have an adapter, or an empty string."""
    if not _is_layer(layer):
        return ", which has no adapter"
    if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
        return " with max_norm, which changes its weight"
    if not isinstance(layer, QUANTIZED) and "weight" not in layer._parameters:
        return " whose weight is computed from others"
    return ""


def _adapter(layer: nn.Module, settings: Settings) -> LoRALayer:
    if isinstance(layer, EMBEDDING):
        return LoRAEmbedding(layer, settings)
    if isinstance(layer, GROUPED):
        return LoRAGrouped(layer, settings)
    return LoRALinear(layer, settings)


def put(
    model: nn.Module, chosen: dict[str, nn.Module], settings: Mapping[str, Settings]
) -> None:
    """Replace layers of a model, which may be at several places, and freeze it."""
    made = {id(each): _adapter(each, settings[name]) for name, each in chosen.items()}
    model.requires_grad_(False)
    _replace(model, made)


def _replace(model: nn.Module, by_old: Mapping[int, nn.Module]) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None and id(child) in by_old:
                setattr(parent, name, by_old[id(child)])


def layers_of(model: nn.Module) -> Iterator[tuple[str, LoRALayer]]:
    """Return the layers of a model that have adapters, with their names."""
    for name, layer in model.named_modules():
        if isinstance(layer, LoRALayer):
            yield name, layer


def adapted(where: str, model: nn.Module) -> dict[str, LoRALayer]:
    """Return the layers of a model that have adapters; there must be one."""
    found = dict(layers_of(model))
    if not found:
        raise ArgumentError(
            f"{where}: the {type(model).__name__} has no adapters; lora.add puts them"
        )
    return found


def parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a model's adapters, for an optimizer.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    list of Parameter

    Raises
    ------
    ArgumentError
        If it has no adapters.
    """
    found = {
        id(each): each
        for layer in adapted("lora.parameters", model).values()
        for name, each in layer.named_parameters()
        if not name.startswith("base_layer.")
    }
    return list(found.values())


def merge(model: nn.Module, requantize: bool = False) -> None:
    """Add the products of a model's adapters to its weights, in place.

    Parameters
    ----------
    model : nn.Module
    requantize : bool, default False
        Whether quantized weights are decoded, changed and quantized anew, which rounds
        them another time.

    Raises
    ------
    ArgumentError
        If it has no adapters; one has a quantized weight that is not to be quantized
        anew, or a weight that another layer has too. Nothing is changed then.

    Notes
    -----
    Layers that are merged stay so. Weights of few bits are rounded; `unmerge` gives
    quantized weights their old bits, and others their values up to rounding.
    """
    found = adapted("lora.merge", model)
    uses = Counter(
        id(each)
        for module in model.modules()
        for each in (*module._parameters.values(), *module._buffers.values())
    )
    for name, layer in found.items():
        base = layer.base_layer
        if isinstance(base, QUANTIZED) and not requantize:
            raise ArgumentError(
                f"lora.merge: the weight of `{name}` is {base.format}; it is only"
                " merged with requantize=True, which rounds it anew"
            )
        tensors = (*base._parameters.values(), *base._buffers.values())
        if any(each is not None and uses[id(each)] > 1 for each in tensors):
            raise ArgumentError(
                f"lora.merge: the weight of `{name}` is that of another layer, too,"
                " which it would change; give the layer a weight of its own"
            )
    for layer in found.values():
        if not layer.merged:
            layer.merge()


def unmerge(model: nn.Module) -> None:
    """Take the products of a model's adapters out of its weights again, in place.

    Parameters
    ----------
    model : nn.Module

    Raises
    ------
    ArgumentError
        If it has no adapters.
    """
    for layer in adapted("lora.unmerge", model).values():
        if layer.merged:
            layer.unmerge()


def remove(model: nn.Module) -> None:
    """Put a model's own layers back in the place of those with adapters.

    Parameters
    ----------
    model : nn.Module
        What is merged stays merged. Its parameters stay frozen.

    Raises
    ------
    ArgumentError
        If it has no adapters.
    """
    found = adapted("lora.remove", model)
    _replace(model, {id(layer): layer.base_layer for layer in found.values()})
