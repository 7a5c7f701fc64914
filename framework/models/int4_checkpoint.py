"""Weights of 4 bits in checkpoints of AWQ and GPTQ.

Three tensors are a weight: `qweight`, `qzeros` and `scales`. An element is
scale * (code - zero), with a scale and a zero for each group of inputs and each output.

Sources: AutoAWQ's `awq/modules/linear/gemm.py` (version "GEMM"), AutoGPTQ's
`qlinear_cuda_old.py`; Lin et al. 2023, arXiv:2306.00978; Frantar et al. 2022,
arXiv:2210.17323.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtype import float16, float32
from ..base.errors import FileFormatError
from ..base.quantized_format import find_format
from ..ops.quantized.encode import join_int4
from ..tensor.from_data import tensor
from ..tensor.quantized import QuantizedTensor
from .checkpoint import Checkpoint, PackedTensor
from .config import ModelConfig

METHODS = ("awq", "gptq")

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight outputs each nibble of an int32 is, the lowest first."""

PARTS = ("qweight", "qzeros", "scales")
ORDER = "g_idx"
"""The group of each input, in checkpoints of GPTQ."""


def unpacked(checkpoint: Checkpoint, config: ModelConfig) -> Checkpoint:
    """Return a checkpoint in which weights of AWQ or GPTQ are quantized tensors.

    Parameters
    ----------
    checkpoint : Checkpoint
    config : ModelConfig
        As it is, without `quantization_config`, the checkpoint is returned.

    Raises
    ------
    FileFormatError
        If the method is another one, weights are not of 4 bits, or a part is missing or
        of another shape.
    """
    found = config.settings.get("quantization_config")
    if found is None:
        return checkpoint
    if not isinstance(found, Mapping):
        raise FileFormatError(
            f"{config.where}: `quantization_config` is {found!r}; it must be an object"
        )
    given = ModelConfig(found, f"{config.where}: quantization_config")
    given.require("bits", 4)
    given.require("version", "gemm", "GEMM")
    method = given.get("quant_method", str)
    if method not in METHODS:
        raise FileFormatError(
            f"{given.where}: `quant_method` is {method!r}; accepted:"
            f" {', '.join(map(repr, METHODS))}"
        )
    # The first layout of GPTQ stores zeros less one.
    later = given.get("checkpoint_format", str, "gptq") == "gptq_v2"
    shift = 1 if method == "gptq" and not later else 0
    packed: dict[str, PackedTensor] = {}
    parts: set[str] = set()
    for name in checkpoint:
        layer, _, part = name.rpartition(".")
        if part == PARTS[0]:
            packed[f"{layer}.weight"] = _packed(checkpoint, layer, method, shift)
            parts |= {f"{layer}.{each}" for each in (*PARTS, ORDER)}
    return checkpoint.replaced(parts, packed)


def _packed(
    checkpoint: Checkpoint, layer: str, method: str, shift: int
) -> PackedTensor:
    """Return a weight whose parts are checked, and read when it is asked for."""
    path = checkpoint.path
    shapes: list[tuple[int, ...]] = []
    for part in PARTS:
        name = f"{layer}.{part}"
        if name not in checkpoint:
            raise FileFormatError(f"{path}: `{name}` is missing")
        shapes.append(checkpoint.shape(name))
    weight, zeros, scales = shapes
    if len(weight) != 2 or len(scales) != 2 or 0 in (*weight, *scales):
        raise FileFormatError(
            f"{path}: `{layer}` has parts of shapes {shapes}; all must be matrices"
        )
    inputs, outputs = weight[0], weight[1] * 8
    if method == "gptq":
        inputs, outputs = weight[0] * 8, weight[1]
    groups = scales[0]
    group = inputs // groups
    if scales != (groups, outputs) or zeros != (groups, outputs // 8) or outputs % 8:
        raise FileFormatError(
            f"{path}: `{layer}` of {inputs} inputs and {outputs} outputs has zeros"
            f" {zeros} and scales {scales}; they must be {(groups, outputs // 8)} and"
            f" {(groups, outputs)}"
        )
    if inputs % groups or group % 32:
        raise FileFormatError(
            f"{path}: `{layer}` has {groups} groups of {inputs} inputs; each must have"
            " a multiple of 32"
        )
    read = partial(_read, checkpoint, layer, method, shift, group)
    return PackedTensor(float16, (outputs, inputs), read)


def _read(
    checkpoint: Checkpoint, layer: str, method: str, shift: int, group: int
) -> QuantizedTensor:
    """Return a weight in rows of int4."""
    weight, zeros, scales = (checkpoint[f"{layer}.{part}"] for part in PARTS)
    packed, packed_zeros = (_words(checkpoint.path, layer, x) for x in (weight, zeros))
    if method == "awq":
        codes = _nibbles(packed)[..., _places()].reshape(len(packed), -1).T
        zero = _nibbles(packed_zeros)[..., _places()].reshape(len(packed_zeros), -1)
    else:
        _check_order(checkpoint, layer, group)
        codes = _nibbles(packed.T).reshape(packed.shape[1], -1)
        zero = _nibbles(packed_zeros).reshape(len(packed_zeros), -1)
    kind = find_format(f"int4_g{group}")
    scale = scales.to(float32).numpy()
    rows = join_int4(
        np.ascontiguousarray(codes), scale.T, zero.T.astype(np.float32) + shift, kind
    )
    return QuantizedTensor(tensor(rows), kind.name, codes.shape[1], float16)


def _words(path: Path, layer: str, x: Any) -> np.ndarray:
    if x.dtype.name != "int32":
        raise FileFormatError(
            f"{path}: `{layer}` has packed weights of {x.dtype.name}; they must be"
            " int32"
        )
    found: np.ndarray = x.numpy().view(np.uint32)
    return found


def _nibbles(words: np.ndarray) -> np.ndarray:
    """Return the eight nibbles of each word, the lowest first."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return (words[..., None] >> shifts & 15).astype(np.uint8)


def _places() -> list[int]:
    """Return which nibble each of eight outputs is."""
    return [AWQ_ORDER.index(output) for output in range(8)]


def _check_order(checkpoint: Checkpoint, layer: str, group: int) -> None:
    """Raise `FileFormatError` where inputs are not in the order of their groups."""
    name = f"{layer}.{ORDER}"
    if name not in checkpoint:
        return
    order = checkpoint[name].numpy()
    if not np.array_equal(order, np.arange(len(order)) // group):
        raise FileFormatError(
            f"{checkpoint.path}: `{name}` has inputs out of order (`desc_act`); only"
            " groups of neighbouring inputs are read"
        )
