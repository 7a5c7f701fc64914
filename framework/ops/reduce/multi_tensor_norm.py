"""Multi-tensor sum of squares: one dispatch for up to 128 tensors."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.dtype import FLOAT
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...dispatch.primitive import Primitive
from ...ir.kernel_call import Dispatch, StridedSpec, fold_grid
from ...kernels.shader_types import check_same_dtype, statistic_dtype, storage_defines
from ..movement.concat import cat

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_TENSORS = 128
"""Inputs of one dispatch."""

LOCAL, ROUNDS = 256, 16
CHUNK = LOCAL * ROUNDS
"""Elements per workgroup."""


def _multi_tensor_square_sum(*tensors: Tensor) -> Tensor:
    """Return sums of the squares of chunks of tensors `x0`, `x1`, ..., in one vector.

    Each tensor has chunks of its own; all are of one dtype. Sums are float32, of
    float64 tensors float64.
    """


_multi_tensor_square_sum.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # many parameters
    [
        inspect.Parameter(
            f"x{k}",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None if k else inspect.Parameter.empty,
            annotation="Tensor | None" if k else "Tensor",
        )
        for k in range(MOST_TENSORS)
    ]
)
_op: Primitive[..., Any] = primitive(dtypes=FLOAT, typed="x0")(_multi_tensor_square_sum)


@_op.spec
def _multi_tensor_square_sum_spec(**tensors: TensorSpec | None) -> TensorSpec:
    check_same_dtype("multi_tensor_square_sum", **tensors)
    present = [each for each in tensors.values() if each is not None]
    chunks = sum(ceil_div(each.numel, CHUNK) for each in present)
    return TensorSpec((chunks,), statistic_dtype(present[0].dtype))


@_op.kernel
def _multi_tensor_square_sum_kernel(
    gpu: DeviceInfo, **tensors: StridedSpec | None
) -> Dispatch:
    present = {name: each for name, each in tensors.items() if each is not None}
    counts = [each.numel for each in present.values()]
    ends = list(itertools.accumulate(ceil_div(count, CHUNK) for count in counts))
    missing = MOST_TENSORS - len(counts)
    push: dict[str, int | str] = {"out_": "out"}
    for k, (name, count, end) in enumerate(
        zip(
            [*present, *["x0"] * missing],
            [*counts, *[0] * missing],
            [*ends, *ends[-1:] * missing],
        )
    ):
        push |= {f"x[{k}]": name, f"count[{k}]": count, f"end[{k}]": end}
    (dtype,) = {each.dtype for each in present.values()}
    return Dispatch(
        "reduce/multi_tensor_norm",
        fold_grid(ends[-1]),
        push,
        {"LOCAL_X": LOCAL, "ROUNDS": ROUNDS},
        storage_defines(dtype),
    )


@_op.reference
def _multi_tensor_square_sum_reference(**tensors: np.ndarray | None) -> np.ndarray:
    sums = []
    for array in tensors.values():
        if array is None:
            continue
        wide = np.float64 if array.dtype == np.float64 else np.float32
        flat = array.reshape(-1).astype(wide)
        starts = range(0, flat.size, CHUNK)
        sums += [np.sum(flat[k : k + CHUNK] ** 2, dtype=wide) for k in starts]
    return np.array(sums, wide)


def square_sum(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of the squares of all elements of tensors of one dtype.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least one; floats.

    Returns
    -------
    Tensor
        A scalar, float32 or for float64 tensors float64.
    """
    present = list(tensors)
    groups = [
        present[k : k + MOST_TENSORS] for k in range(0, len(present), MOST_TENSORS)
    ]
    # As many arguments as there are parameters: names need not be looked up.
    chunks: list[Tensor] = [
        _op(*group, *[None] * (MOST_TENSORS - len(group))) for group in groups
    ]
    return (chunks[0] if len(chunks) == 1 else cat(chunks)).sum()
