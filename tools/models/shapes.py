"""Sizes of models by name, and models of random weights that have them."""

from __future__ import annotations

from typing import Any

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import models, nn
from vkbackend.framework.base.quantized_format import FORMATS, find_format
from vkbackend.framework.models.loading import FAMILIES
from vkbackend.framework.models.parameters import set_module

ROWS = 64
"""Rows that are quantized; those of weights are taken from them."""


def _sizes(
    kind: str,
    words: int,
    width: int,
    inner: int,
    layers: int,
    heads: tuple[int, int, int],
    room: int,
    tied: bool,
) -> dict[str, Any]:
    """Return a configuration; heads are those of queries, of keys, and their size."""
    return {
        "model_type": kind,
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "max_position_embeddings": room,
        "rope_theta": 500000.0,
        "tie_word_embeddings": tied,
    }


SHAPES = {
    "smollm-135m": _sizes("llama", 49152, 576, 1536, 30, (9, 3, 64), 8192, True),
    "smollm-1.7b": _sizes("llama", 49152, 2048, 8192, 24, (32, 32, 64), 8192, True),
    "qwen2.5-0.5b": _sizes("qwen2", 151936, 896, 4864, 24, (14, 2, 64), 32768, True),
    "qwen3-0.6b": _sizes("qwen3", 151936, 1024, 3072, 28, (16, 8, 128), 40960, True),
    "qwen3-1.7b": _sizes("qwen3", 151936, 2048, 6144, 28, (16, 8, 128), 40960, True),
    "qwen3-8b": _sizes("qwen3", 151936, 4096, 12288, 36, (32, 8, 128), 40960, False),
    "llama-1b": _sizes("llama", 128256, 2048, 8192, 16, (32, 8, 64), 131072, True),
    "llama-3b": _sizes("llama", 128256, 3072, 8192, 28, (24, 8, 128), 131072, True),
    "llama-8b": _sizes("llama", 128256, 4096, 14336, 32, (32, 8, 128), 131072, False),
    "mistral-7b": _sizes("mistral", 32768, 4096, 14336, 32, (32, 8, 128), 32768, False),
}
"""Configurations of models that have been published."""


def shape_config(name: str) -> dict[str, Any]:
    """Return the configuration of a shape.

    Raises
    ------
    ArgumentError
        If there is no such shape.
    """
    if name not in SHAPES:
        raise ArgumentError(f"shape is {name!r}; accepted: {', '.join(SHAPES)}")
    return SHAPES[name]


def random_model(
    config: dict[str, Any], format: str | None, device: Any, dtype: Any
) -> nn.Module:
    """Return a model of random weights, made on the device layer by layer.

    Parameters
    ----------
    config : dict
        As `config.json` holds it.
    format : str or None
        What weights of linear and embedding layers are quantized as, where their
        columns are whole blocks of it; they are never there as floats.
    device : Device
    dtype : DType
        Of activations and of the other weights.
    """
    model = FAMILIES[config["model_type"]](models.ModelConfig(config)).eval()
    if format is not None:
        _replace_by_quantized(model, format, device, dtype)
    models.initialize(model, device, dtype)
    return model.requires_grad_(False)


def _replace_by_quantized(
    model: nn.Module, format: str, device: Any, dtype: Any
) -> None:
    """Put layers of random quantized weights in the place of the model's."""
    kind = find_format(format, "bench")
    pools: dict[int, fw.Tensor] = {}
    made: dict[int, Any] = {}
    for name, layer in list(model.named_modules()):
        if type(layer) not in (nn.Linear, nn.Embedding):
            continue
        parameter: Any = layer.get_parameter("weight")
        rows, columns = parameter.shape
        if columns % kind.multiple:
            continue
        if columns not in pools:
            drawn = fw.randn(ROWS, columns) * 0.02
            pools[columns] = fw.quantize(drawn, kind.name).blocks.to(device)
        if id(parameter) not in made:
            chosen = fw.randint(0, ROWS, (rows,), device=device)
            blocks = pools[columns].index_select(0, chosen)
            fw.eval(blocks)
            made[id(parameter)] = fw.QuantizedTensor(blocks, kind.name, columns, dtype)
        weight = made[id(parameter)]
        if isinstance(layer, nn.Linear):
            replaced: nn.Module = nn.QLinear.from_quantized(weight, layer.bias)
        else:
            replaced = nn.QEmbedding.from_quantized(weight)
        set_module(model, name, replaced.eval())


def is_format(name: str) -> bool:
    """Return whether a name is that of quantized weights."""
    return name.lower() in FORMATS or name.lower().startswith("int4")
