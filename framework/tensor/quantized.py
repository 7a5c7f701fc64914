"""Quantized tensors: weights in blocks of few bits, on the host or a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.dtype import DType, DTypeLike, as_dtype, float32
from ..base.errors import DTypeError, ShapeError
from ..base.quantized_format import QuantizedFormat, find_format
from ..ops.quantized.encode import encode
from ..ops.quantized.product import WEIGHTS, dequantize_blocks
from .factories import DeviceLike
from .from_data import tensor
from .tensor import Tensor


class QuantizedTensor(NamedTuple):
    """Weights whose rows are blocks of few bits, with shared scales.

    Parameters
    ----------
    blocks : Tensor, uint8, shape (..., row_size)
        The bytes: of "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k" and "q6_k"
        those of GGUF files. A row of "int8" is its float32 scale in 16 bytes, then
        signed bytes; one of "int4_gN" is nibbles, then a float16 scale and zero for
        each group of N.
    format : str
    columns : int
        Elements of a row.
    dtype : DType, default float32
        Of what `dequantize` returns.

    Examples
    --------
    >>> weight = fw.quantize(fw.ones((2, 64)), "q8_0")
    >>> weight.shape, weight.nbytes
    (torch.Size([2, 64]), 136)
    """

    blocks: Tensor
    format: str
    columns: int
    dtype: DType = float32

    @property
    def shape(self) -> Any:
        """Shape of the elements."""
        size = type(self.blocks.shape)
        return size((*self.blocks.shape[:-1], self.columns))

    @property
    def device(self) -> Any:
        """Where the blocks are."""
        return self.blocks.device

    @property
    def nbytes(self) -> int:
        """Bytes that the blocks take."""
        return self.blocks.numel()

    def dequantize(self, dtype: DTypeLike | None = None) -> Tensor:
        """Return the elements.

        Parameters
        ----------
        dtype : DType, str or None
            float32, float16 or bfloat16; None is `self.dtype`.

        Returns
        -------
        Tensor, of `self.shape`
            Rounded once from float32, which has the bits of the package gguf.
        """
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        if wanted not in WEIGHTS:
            return dequantize_blocks(
                self.blocks, self.format, self.columns, float32
            ).to(wanted)
        return dequantize_blocks(self.blocks, self.format, self.columns, wanted)

    def to(self, device: DeviceLike) -> QuantizedTensor:
        """Return the tensor on a device; the bytes are copied as they are."""
        return self._replace(blocks=self.blocks.to(device))


def quantize(x: Tensor | np.ndarray, format: str) -> QuantizedTensor:
    """Return weights as blocks of few bits, made on the host.

    Parameters
    ----------
    x : Tensor or ndarray, shape (..., columns), float
        Finite. Columns are a multiple of the format's block: 32, 256 of those of "_k",
        16 of "int8".
    format : str
        A format of `QuantizedTensor`; "int4" is "int4_g128".

    Returns
    -------
    QuantizedTensor
        On the device of `x`. Blocks of 32 have the bits that the package gguf makes;
        those of 256 come from a search for the scales of the least error.

    Raises
    ------
    ArgumentError
        If there is no such format.
    ShapeError
        If the columns are no number of blocks.
    DTypeError
        If `x` is not of floats, or an element is no finite number.
    """
    kind = find_format(format)
    given = x if isinstance(x, Tensor) else tensor(x)
    if not given.dtype.is_float:
        raise DTypeError(
            f"quantize: x is {given.dtype.name}; it must be of a float dtype"
        )
    if not len(given.shape):
        raise ShapeError("quantize: x has no dimension; it needs one of columns")
    kind.check("quantize", given.shape[-1])
    values = given.detach().cpu().to(float32).numpy()
    blocks = encode_finite("quantize: x", values, kind)
    place = given.device
    return QuantizedTensor(
        tensor(blocks, device=place),
        kind.name,
        given.shape[-1],
        given.dtype if given.dtype in WEIGHTS else float32,
    )


def encode_finite(name: str, values: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    """Return rows as blocks; raise `DTypeError` if an element is no finite number."""
    if not np.isfinite(values).all():
        raise DTypeError(
            f"{name} has an element that is infinite or no number; the scale of its"
            " block would be so too"
        )
    return encode(values, kind)
