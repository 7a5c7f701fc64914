"""Adapters in files, as the package peft keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vkbackend.atomic_file import save_atomically
from vkbackend.errors import ArgumentError

from .. import nn
from ..autograd.engine import no_grad
from ..base.errors import FileFormatError, ShapeError
from ..io.serialization import save as save_tensors
from ..models.checkpoint import Checkpoint, open_checkpoint
from ..models.gpt2 import Conv1D
from ..tensor.quantized import QuantizedTensor
from ..tensor.tensor import Tensor
from .adapters import LAYERS, adapted, layers_of, put
from .config import CONFIG, AdapterConfig, names_in_files, read_config, written_config
from .fused import fused_of, joined, parameters_of_experts, split, targeted, tie
from .grouped import names_of_experts
from .layers import EMBEDDING, LoRALayer, Settings

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
PREFIX = "base_model.model."


def save(
    model: nn.Module, folder: str | Path, base_model: str | Path | None = None
) -> None:
    """Write a model's adapters as the package peft does.

    Parameters
    ----------
    model : nn.Module
    folder : str or Path
        It is made if there is none. `adapter_config.json` and
        `adapter_model.safetensors` are written.
    base_model : str, Path or None
        Name or folder of the model, which is noted in the configuration.

    Raises
    ------
    ArgumentError
        If it has no adapters.
    OSError
        If the folder cannot be written.
    """
    found = adapted("lora.save", model)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    experts, fused = names_of_experts(model), fused_of(model)
    inner = {name for names in fused.values() for name in names}
    tensors = {
        f"{PREFIX}{each}.{part}": value
        for name, layer in found.items()
        for part, tensor in layer.factors().items()
        if name not in inner
        for each, value in _named(name, experts, tensor.detach())
    }
    for name, value in joined(model, fused).items():
        tensors[f"{PREFIX}{name}"] = value
    save_tensors(tensors, folder / WEIGHTS[0])
    text = json.dumps(
        written_config(model, found, base_model), indent=2, sort_keys=True
    )
    save_atomically(folder / CONFIG, (text + "\n").encode())


def _named(
    name: str, experts: dict[str, list[str]], tensor: Tensor
) -> list[tuple[str, Tensor]]:
    """Return the names in a file of an adapter's tensor, or of those that it stacks."""
    if name not in experts:
        return [(name, tensor)]
    return list(zip(experts[name], tensor, strict=True))


def load(model: nn.Module, folder: str | Path) -> None:
    """Read adapters that `save` or the package peft wrote, and put them on a model.

    Parameters
    ----------
    model : nn.Module
        The one that they were trained with: without adapters, which it gets, or with
        such of the same settings, whose values are replaced. Its own parameters are
        frozen; the adapters can be trained on.
    folder : str or Path

    Raises
    ------
    FileNotFoundError
        If there is no configuration, or no weights.
    FileFormatError
        If a file is damaged, or adapters are of another kind, of layers that the model
        has not, or incomplete.
    ShapeError
        If a tensor has another shape than the layer takes.
    ArgumentError
        If the model has other adapters, or merged ones.
    """
    folder = Path(folder)
    config = read_config(folder / CONFIG)
    fused = _fused(model, config)
    inner = {name for names in fused.values() for name in names}
    opened = _open_weights(folder)
    checkpoint = _stacked(model, split(model, opened, fused, PREFIX))
    parts = _by_layer(checkpoint)
    layers = {name: _layer(model, checkpoint, name) for name in parts}
    settings = {
        name: config.of(names_in_files(model, name, name in inner)) for name in parts
    }
    present = dict(layers_of(model))
    if present:
        _check_present(folder, present, inner, settings)
    for name, layer in layers.items():
        _check_shapes(checkpoint, name, layer, parts[name], settings[name])
    if not present:
        put(model, layers, settings)
        tie(model, fused)
        present = dict(layers_of(model))
    with no_grad():
        for name, each in parts.items():
            values = {**present[name].factors(), "base_layer.weight": None}
            for part, source in each.items():
                target = values[part]
                if target is None:
                    # Peft adds the frozen weight of heads and embeddings.
                    target = present[name].base_layer.weight
                    if isinstance(target, QuantizedTensor):
                        continue
                stored = checkpoint[source]
                target.copy_(stored.to(target.device, target.dtype))


def _fused(model: nn.Module, config: AdapterConfig) -> dict[str, tuple[str, ...]]:
    """Return the fused parameters that a configuration names, with their layers."""
    try:
        found = targeted(model, config.parameters)
    except KeyError as error:
        raise FileFormatError(
            f"{config.path}: target_parameters has {error}; of the"
            f" {type(model).__name__} there can be"
            f" {', '.join(parameters_of_experts(model)) or 'none'}"
        ) from error
    if found and config.settings.dropout:
        raise FileFormatError(
            f"{config.path}: lora_dropout is {config.settings.dropout}; with"
            " target_parameters it must be 0"
        )
    return found


def _stacked(model: nn.Module, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which the factors of experts are stacked."""
    parts = {
        f"{PREFIX}{name}.{end}": [f"{PREFIX}{each}.{end}" for each in stored]
        for name, stored in names_of_experts(model).items()
        for end in ("lora_A.weight", "lora_B.weight")
    }
    present = {
        name: stored
        for name, stored in parts.items()
        if any(each in checkpoint for each in stored)
    }
    return checkpoint.stacked(present) if present else checkpoint


def _open_weights(folder: Path) -> Checkpoint:
    for name in WEIGHTS:
        if (folder / name).exists():
            return open_checkpoint(folder / name)
    raise FileNotFoundError(f"lora.load: {folder} has no {' and no '.join(WEIGHTS)}")


def _by_layer(checkpoint: Checkpoint) -> dict[str, dict[str, str]]:
    """Return the tensors' names in the file by layer, and by part of an adapter."""
    ends = ("lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B")
    found: dict[str, dict[str, str]] = {}
    for source in checkpoint:
        for end in (*ends, "base_layer.weight"):
            if source.startswith(PREFIX) and source.endswith(f".{end}"):
                name = source.removeprefix(PREFIX).removesuffix(f".{end}")
                found.setdefault(name, {})[end] = source
                break
        else:
            raise FileFormatError(
                f"{checkpoint.path}: `{source}` is no part of an adapter; parts are"
                f" named {PREFIX}LAYER and end with {', '.join(ends)}"
            )
    if not found:
        raise FileFormatError(f"{checkpoint.path}: it has no adapters")
    return found


def _layer(model: nn.Module, checkpoint: Checkpoint, name: str) -> Any:
    """Return a layer of a model without its adapter."""
    layer: Any
    try:
        layer = model.get_submodule(name)
    except AttributeError:
        layer = None
    if isinstance(layer, LoRALayer):
        layer = layer.base_layer
    if layer is None or type(layer) not in LAYERS:
        problem = (
            "has no such layer" if layer is None else f"has a {type(layer).__name__}"
        )
        raise FileFormatError(
            f"{checkpoint.path}: it has an adapter of `{name}`; the"
            f" {type(model).__name__} {problem} there"
        )
    return layer


def _check_present(
    folder: Path,
    present: dict[str, LoRALayer],
    fused: set[str],
    settings: Mapping[str, Settings],
) -> None:
    differing = sorted(settings.keys() ^ present.keys())
    if differing:
        raise ArgumentError(
            f"lora.load: the model and {folder} have adapters of other layers, as"
            f" `{differing[0]}`; take those of the model away with lora.remove"
        )
    for name, layer in present.items():
        if layer.merged:
            raise ArgumentError(
                f"lora.load: `{name}` is merged; lora.unmerge takes it out"
                " of the weight"
            )
        if layer.settings != settings[name]:
            raise ArgumentError(
                f"lora.load: the model's adapter of `{name}` has {layer.settings}, that"
                f" of {folder} {settings[name]}; take the model's away with lora.remove"
            )
        if getattr(layer, "is_fused", False) != (name in fused):
            raise ArgumentError(
                f"lora.load: either the model or {folder} has the adapter of `{name}`"
                " in a fused parameter of experts; take the model's away with"
                " lora.remove"
            )


def _check_shapes(
    checkpoint: Checkpoint,
    name: str,
    layer: Any,
    parts: dict[str, str],
    settings: Settings,
) -> None:
    *groups, rows, columns = layer.weight.shape
    shapes: dict[str, tuple[int, ...]]
    if isinstance(layer, EMBEDDING):
        shapes = {
            "lora_embedding_A": (settings.rank, rows),
            "lora_embedding_B": (columns, settings.rank),
        }
    else:
        if isinstance(layer, Conv1D):
            rows, columns = columns, rows
        shapes = {
            "lora_A.weight": (*groups, settings.rank, columns),
            "lora_B.weight": (*groups, rows, settings.rank),
        }
    missing = [part for part in shapes if part not in parts]
    if missing:
        raise FileFormatError(
            f"{checkpoint.path}: `{PREFIX}{name}.{missing[0]}` is missing"
        )
    if not isinstance(layer, Conv1D):
        shapes["base_layer.weight"] = tuple(layer.weight.shape)
    for part, source in parts.items():
        if part not in shapes:
            raise FileFormatError(
                f"{checkpoint.path}: `{source}` is no part of an adapter of a"
                f" {type(layer).__name__}"
            )
        if checkpoint.shape(source) != shapes[part]:
            raise ShapeError(
                f"{checkpoint.path}: `{source}` is {checkpoint.shape(source)}; the"
                f" layer takes {shapes[part]}"
            )
