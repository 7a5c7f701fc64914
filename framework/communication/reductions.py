"""Reductions over ranks, in rank order: each rank that computes one gets the same bits.

Floats of 16 bits are reduced in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..base.dtype import DType, bool_, decode, encode
from ..base.errors import DTypeError

STEPS: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.add,
    "mean": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""What is done with the elements of a further rank, by the reduction's name."""

DIRECT = 1 << 16
"""Bytes up to which each of many ranks computes a whole sum.

Beyond, each computes a part, and they exchange these.
"""

_BITWISE = ("and", "or", "xor")


class Reduction:
    """Reduction of as many arrays as there are ranks, given in their order.

    Parameters
    ----------
    name : str
        One of `STEPS`. The sum of bools is whether one is true, the product whether
        all are.
    dtype : DType
        Theirs, and the result's.
    count : int
        Number of ranks.

    Raises
    ------
    DTypeError
        If the dtype has no such reduction.
    """

    def __init__(self, where: str, name: str, dtype: DType, count: int) -> None:
        refused = (
            (dtype.is_encoded and dtype.itemsize == 1)
            or (name == "mean" and not dtype.is_differentiable)
            or (name in ("max", "min") and dtype.is_complex)
            or (name in _BITWISE and dtype.is_differentiable)
        )
        if refused:
            raise DTypeError(
                f"{where}: the tensor is {dtype.name}, which has no {name}; convert it"
                " with to()"
            )
        self._step = STEPS[name]
        self._divisor = count if name == "mean" else 1
        self._dtype = dtype
        self._wide = dtype.is_float and dtype.itemsize == 2
        self._truth = dtype is bool_
        self._left = self._count = count
        self._sum: np.ndarray | None = None

    def add(self, chunk: np.ndarray) -> np.ndarray | None:
        """Take the elements of the next rank; return the result after the last.

        Parameters
        ----------
        chunk : ndarray
            As they are in memory; it may be overwritten afterwards.
        """
        with np.errstate(all="ignore"):
            return self._add(chunk)

    def of(self, chunks: Sequence[np.ndarray]) -> np.ndarray:
        """Return the reduction of the elements of all ranks; see `add`."""
        found = None
        with np.errstate(all="ignore"):
            for chunk in chunks:
                found = self._add(chunk)
        assert found is not None, "there are as many as ranks"
        return found

    def _add(self, chunk: np.ndarray) -> np.ndarray | None:
        values = self._decoded(chunk)
        if self._sum is None:
            self._sum = values.copy() if values is chunk else values
        else:
            self._step(self._sum, values, out=self._sum)
        self._left -= 1
        if self._left:
            return None
        found, self._sum, self._left = self._sum, None, self._count
        if self._divisor != 1:
            found = np.divide(found, self._divisor, dtype=found.dtype)
        return self._encoded(found)

    def _decoded(self, chunk: np.ndarray) -> np.ndarray:
        values = decode(chunk, self._dtype)
        return values.astype(np.float32) if self._wide else values

    def _encoded(self, values: np.ndarray) -> np.ndarray:
        return encode(values, self._dtype) if self._wide else values
