"""Models from GGUF files, and to them: names and order of rows.

Source: the package gguf, `tensor_mapping.py`; llama.cpp's
`convert_hf_to_gguf.py` for the rows of queries and keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vkbackend.errors import ArgumentError

from .. import nn, ops
from ..base.device import Device
from ..base.dtype import DType, as_dtype, float32
from ..base.errors import FileFormatError
from ..base.quantized_format import FORMATS
from ..tensor.factories import zeros
from ..tensor.from_data import tensor
from ..tensor.quantized import QuantizedTensor, encode_finite
from ..tensor.tensor import Tensor
from .experts import Router
from .gemma import Gemma, RMSNorm
from .gguf_encoder import leading_rows, pooling_described
from .gguf_file import GGUFFile, write_gguf
from .gguf_settings import (
    FACTORS,
    LONG_FACTORS,
    SHORT_FACTORS,
    described,
    plain_tensor,
    stored_tensor,
)
from .gguf_tokenizer_writer import tokenizer_metadata
from .gpt2 import Conv1D
from .llama import Llama
from .parameters import set_module, set_parameter, tied_parameters
from .sentence import SentenceEncoder
from .tokenizer import Tokenizer

Layer = nn.Linear | nn.GroupedLinear | nn.Embedding | Conv1D

_TOP = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.final_layernorm": "output_norm",
    "lm_head": "output",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
    "bert.embeddings.word_embeddings": "token_embd",
    "bert.embeddings.position_embeddings": "position_embd",
    "bert.embeddings.token_type_embeddings": "token_types",
    "bert.embeddings.LayerNorm": "token_embd_norm",
    "classifier.dense": "cls",
    "classifier.out_proj": "cls.output",
}

_IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.dense": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    "mlp.down_proj": "ffn_down",
    **{
        f"{block}.{name}": f"ffn_{stored}"
        for block in ("mlp", "block_sparse_moe")
        for name, stored in (
            ("gate", "gate_inp"),
            ("experts.gate", "gate_exps"),
            ("experts.up", "up_exps"),
            ("experts.down", "down_exps"),
        )
    },
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}

_IN_GEMMA = {
    **_IN_LAYER,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

_BLOCK = r"(?:model\.layers|transformer\.h|bert\.encoder\.layer)\.(\d+)\.(.+)"

PLAIN = ("float32", "float16", "bfloat16")
"""Dtypes of parameters in a file."""


def fill_from_gguf(
    model: nn.Module, file: GGUFFile, place: Device, dtype: DType | None
) -> None:
    """Give a model the parameters of a file, one tensor after the other.

    Quantized weights stay so: their layers become `nn.QLinear` and `nn.QEmbedding`.

    Parameters
    ----------
    model : nn.Module
        As `settings_of` describes it; of no use after an error.
    file : GGUFFile
    place : Device
    dtype : DType or None
        Of parameters and activations; None is that of the embedding, float32 if this
        is quantized.

    Raises
    ------
    FileFormatError
        If a tensor is missing, of another shape, or not of the model.
    """
    sources = _checked_sources(model, file)
    if dtype is None:
        kind = file.tensors["token_embd.weight"].kind
        dtype = as_dtype(kind) if kind in PLAIN else float32
    tied = {
        name: other
        for name, other in tied_parameters(model).items()
        if name not in sources
    }
    for name, source in sources.items():
        module_name, _, attribute = name.rpartition(".")
        layer = model.get_submodule(module_name)
        kept = file.tensors[source].kind in FORMATS and attribute == "weight"
        if kept and isinstance(layer, Layer):
            _set_quantized(
                model, module_name, _blocks(model, file, name, source), place, dtype
            )
        else:
            found = _ours(model, name, layer, plain_tensor(file, source))
            set_parameter(model, name, nn.Parameter(found.to(place, dtype)))
    for name, other in tied.items():
        if name in sources:
            continue
        module_name = name.rpartition(".")[0]
        first = model.get_submodule(other.rpartition(".")[0])
        if isinstance(first, nn.QEmbedding):
            _set_quantized(model, module_name, first.weight, place, dtype)
        else:
            set_parameter(model, name, model.get_parameter(other))


_OF_POSITIONS = (FACTORS, LONG_FACTORS, SHORT_FACTORS)


def _checked_sources(model: nn.Module, file: GGUFFile) -> dict[str, str]:
    """Return the file's name of each parameter that it has."""
    tied = tied_parameters(model)
    sources: dict[str, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        source = gguf_name(model, name)
        if source not in file.tensors:
            if name in tied:
                continue
            raise FileFormatError(f"{file.path}: tensor `{source}` is missing")
        shape = tuple(parameter.shape)
        if _is_turned(model, name):
            shape = shape[::-1]
        shape = (shape[0] - _leading(model, name), *shape[1:])
        if file.tensors[source].shape != shape:
            raise FileFormatError(
                f"{file.path}: tensor `{source}` has shape"
                f" {file.tensors[source].shape}; the model has {shape}"
            )
        sources[name] = source
    strange = {*file.tensors} - {*sources.values(), *_OF_POSITIONS}
    if strange:
        raise FileFormatError(
            f"{file.path}: tensor `{min(strange)}` is not of the model"
            f" {type(model).__name__}, as {len(strange)} in all"
        )
    return sources


def gguf_name(model: nn.Module, name: str) -> str:
    """Return what a GGUF file calls a parameter."""
    in_layer = _IN_GEMMA if isinstance(model, Gemma) else _IN_LAYER
    module, _, kind = name.rpartition(".")
    module = re.sub(r"^roberta\.", "bert.", module)
    found = re.fullmatch(_BLOCK, module)
    if found:
        return f"blk.{found[1]}.{in_layer[found[2]]}.{kind}"
    return f"{_TOP[module]}.{kind}"


def _is_turned(model: nn.Module, name: str) -> bool:
    """Return whether a parameter is stored as (inner, outer) here."""
    module, _, kind = name.rpartition(".")
    return kind == "weight" and isinstance(model.get_submodule(module), Conv1D)


def _heads(model: nn.Module, name: str) -> int:
    """Return how many heads the rows of a parameter are of, if they have an order.

    GGUF's Llama pairs neighbouring elements of a head; here, and in its other models,
    the halves of a head are paired.
    """
    if not isinstance(model, Llama):
        return 0
    if ".q_proj." in name:
        return model.config.num_attention_heads
    return model.config.num_key_value_heads if ".k_proj." in name else 0


def _leading(model: nn.Module, name: str) -> int:
    """Return how many rows of a parameter a file has not; nothing reads them."""
    is_of_positions = name.endswith(".position_embeddings.weight")
    return leading_rows(model) if is_of_positions else 0


def _to_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _to_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _ours(model: nn.Module, name: str, layer: nn.Module, found: Tensor) -> Tensor:
    """Return a parameter of a file in the order that the model has."""
    heads = _heads(model, name)
    if heads:
        kind = found.dtype
        rows = _to_halves(found.to(float32).numpy(), heads)
        return tensor(np.ascontiguousarray(rows)).to(kind)
    if isinstance(layer, RMSNorm):
        return found.to(float32) - 1.0
    missing = _leading(model, name)
    if missing:
        return ops.cat([zeros((missing, *found.shape[1:]), dtype=found.dtype), found])
    return found.T.contiguous() if _is_turned(model, name) else found


def _blocks(
    model: nn.Module, file: GGUFFile, name: str, source: str
) -> QuantizedTensor:
    """Return quantized weights in the order that the model has."""
    found = stored_tensor(file, source)
    assert isinstance(found, QuantizedTensor)
    missing, heads = _leading(model, name), _heads(model, name)
    if missing:
        # Blocks of zeros are zeros, in every format.
        empty = zeros((missing, *found.blocks.shape[1:]), dtype=found.blocks.dtype)
        return found._replace(blocks=ops.cat([empty, found.blocks]))
    if not heads:
        return found
    rows = _to_halves(found.blocks.numpy(), heads)
    return found._replace(blocks=tensor(np.ascontiguousarray(rows)))


def _set_quantized(
    model: nn.Module,
    name: str,
    weight: QuantizedTensor,
    place: Device,
    dtype: DType,
) -> None:
    """Put a quantized layer in the place of another."""
    layer: Any = model.get_submodule(name)
    placed = weight.to(place)._replace(dtype=dtype)
    if isinstance(layer, nn.Embedding):
        made: nn.Module = nn.QEmbedding.from_quantized(placed)
    elif isinstance(layer, nn.GroupedLinear):
        made = nn.QGroupedLinear.from_quantized(placed)
    else:
        made = nn.QLinear.from_quantized(placed, layer.bias)
    set_module(model, name, made)


def save_gguf(
    model: nn.Module,
    path: str | Path,
    format: str = "float16",
    *,
    tokenizer: Tokenizer | None = None,
    context_length: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a model as a GGUF file, which `load` and other programs read.

    Parameters
    ----------
    model : nn.Module
        `Llama`, `Qwen`, `Gemma`, `Phi`, `Phi3`, `GPT2`, `Bert`, `Roberta` or
        `RobertaClassifier`; or a `SentenceEncoder` of the first token, the last or the
        mean, of which the number of tokens is kept.
    path : str or Path
        A file there is replaced once the new one is whole.
    format : str, default "float16"
        Of the weights of linear and embedding layers: a dtype of float32, float16 and
        bfloat16, or a format of GGUF of `QuantizedTensor`. Rows that are no number of
        its blocks are float16; layers that are quantized stay as they are. Norms,
        biases and what chooses experts are float32.
    tokenizer : Tokenizer or None
        Written, too, with its template of chats. A `Roberta` must have one, which tells
        it from a `Bert`.
    context_length : int or None
        What the file says of it; None is that of the model's configuration, or 4096.
    metadata : mapping of str to value, or None
        Further entries.

    Raises
    ------
    ArgumentError
        If the model, the format or the tokenizer is of no kind that GGUF files have.
    DTypeError
        If a weight to be quantized has an element that is no finite number.
    """
    if format not in PLAIN and (format not in FORMATS or FORMATS[format].gguf is None):
        of_gguf = [name for name, kind in FORMATS.items() if kind.gguf is not None]
        raise ArgumentError(
            f"save_gguf: format is {format!r}; accepted: {', '.join(PLAIN)},"
            f" {', '.join(of_gguf)}"
        )
    pooling: dict[str, Any] = {}
    if isinstance(model, SentenceEncoder):
        model, pooling = pooling_described(model)
    described_as, of_positions = described(model, context_length, tokenizer)
    described_as |= pooling
    if tokenizer is not None:
        kind = described_as["general.architecture"]
        words = described_as[f"{kind}.vocab_size"]
        described_as |= tokenizer_metadata(tokenizer, words, kind)
    tensors: dict[str, tuple[str, tuple[int, ...], np.ndarray]] = {
        name: ("float32", each.shape, each) for name, each in of_positions.items()
    }
    seen: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.QLinear | nn.QGroupedLinear | nn.QEmbedding):
            weight = module.weight
            if id(weight.blocks) not in seen:
                tensors[gguf_name(model, f"{name}.weight")] = _kept(model, name, weight)
            seen.add(id(weight.blocks))
        for attribute, parameter in module.named_parameters(recurse=False):
            full = f"{name}.{attribute}"
            if id(parameter) not in seen:
                tensors[gguf_name(model, full)] = _written(
                    model, full, parameter, format
                )
            seen.add(id(parameter))
    if any(kind in FORMATS for kind, *_ in tensors.values()):
        described_as["general.quantization_version"] = 2
    write_gguf(path, {**described_as, **(metadata or {})}, tensors)


def _kept(
    model: nn.Module, name: str, weight: QuantizedTensor
) -> tuple[str, tuple[int, ...], np.ndarray]:
    """Return quantized weights as they are written."""
    if FORMATS.get(weight.format) is None or FORMATS[weight.format].gguf is None:
        raise ArgumentError(
            f"save_gguf: layer `{name}` is quantized as {weight.format}, which GGUF"
            " files have not; use another format"
        )
    rows, heads = weight.blocks.cpu().numpy(), _heads(model, f"{name}.weight")
    if heads:
        rows = _to_pairs(rows, heads)
    rows = rows[_leading(model, f"{name}.weight") :]
    return weight.format, (len(rows), *weight.shape[1:]), rows


def _written(
    model: nn.Module, name: str, parameter: Tensor, format: str
) -> tuple[str, tuple[int, ...], np.ndarray]:
    """Return a parameter as it is written."""
    found = parameter.detach().cpu()
    values = found.to(float32).numpy()
    heads = _heads(model, name)
    if heads:
        values = _to_pairs(values, heads)
    if _is_turned(model, name):
        values = values.T
    values = values[_leading(model, name) :]
    values = np.ascontiguousarray(values)
    layer = model.get_submodule(name.rpartition(".")[0])
    if isinstance(layer, RMSNorm):
        # Files have the whole factor.
        values = values + np.float32(1)
    kept = isinstance(layer, Router) or not isinstance(layer, Layer)
    if values.ndim < 2 or kept:
        return "float32", values.shape, values
    if format in FORMATS and values.shape[-1] % FORMATS[format].multiple == 0:
        blocks = encode_finite(f"save_gguf: `{name}`", values, FORMATS[format])
        return format, values.shape, blocks
    kind = format if format in PLAIN else "float16"
    stored = tensor(values).to(as_dtype(kind))
    return kind, values.shape, stored.host_view().view(np.uint8)
