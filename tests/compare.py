"""Comparison of results, and the one table of tolerances."""

from typing import Any, NamedTuple

import numpy as np

from vkbackend.framework import Tensor
from vkbackend.framework.base.device import GpuDevice


class Tolerance(NamedTuple):
    """Largest difference that is no error: absolute, and relative to the expected."""

    absolute: float
    relative: float


# What single operations may differ by where rounding is not prescribed.
TOLERANCES = {
    # Vulkan allows exp 3 + 2|x| ulp and log 3 ulp (specification, "Precision of
    # Individual Operations"); for |x| <= 4 that is 11 ulp of 2^-23. Sums of a few
    # hundred terms of size 1 stay within the absolute part.
    "float32": Tolerance(4e-6, 4e-6),
    # One rounding to 11 bits, or to 8, from a float32 result: 1 ulp.
    "float16": Tolerance(2.0**-10, 2.0**-10),
    "bfloat16": Tolerance(2.0**-7, 2.0**-7),
    # Host arithmetic, summed in another order.
    "float64": Tolerance(1e-12, 1e-12),
    # Relative to the magnitude. A product is two, and a function two or three.
    "complex64": Tolerance(8e-6, 8e-6),
    "complex128": Tolerance(1e-12, 1e-12),
}
EXACT = Tolerance(0.0, 0.0)


def assert_close(
    actual: Any, expected: Any, *, exact: bool = False, scale: float = 1.0
) -> None:
    """Check shape, dtype and elements; equal where the dtype has one right answer.

    Parameters
    ----------
    actual : Tensor or array_like
        What the library answered.
    expected : array_like
        What an oracle says, in the dtype that the answer must have.
    exact : bool, default False
        Whether a float result must be correct to the last bit.
    scale : float, default 1
        Factor on the tolerance; the caller says why.
    """
    wanted = np.asarray(expected)
    name = wanted.dtype.name
    lacks_int64 = False
    if isinstance(actual, Tensor):
        device = actual.device
        lacks_int64 = isinstance(device, GpuDevice) and not device.gpu.info.shader_int64
        # bfloat16 comes as NumPy's float32.
        name, actual = actual.dtype.name, actual.detach().numpy()
    found = np.asarray(actual)
    assert found.shape == wanted.shape
    if lacks_int64 and wanted.dtype == np.int64:
        # Positions and counts, of a device without 64-bit integers.
        wanted = wanted.astype(np.int32)
    assert found.dtype == wanted.dtype
    within = EXACT if exact else TOLERANCES.get(name, EXACT)
    np.testing.assert_allclose(
        found,
        wanted,
        atol=within.absolute * scale,
        rtol=within.relative * scale,
        equal_nan=True,
    )
