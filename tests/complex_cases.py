"""Rows of the op table for complex numbers and Fourier transforms.

Their ops take complex numbers alone; gradients, which are to be PyTorch's, are in
`tests/framework/ops/elementwise/test_complex_numbers.py` and
`tests/framework/test_fft.py`.
"""

from typing import Any

import numpy as np
import torch

from tests.case import Case, Draw, Oracle, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.elementwise.complex_numbers import pairs_of

SHAPES = ((7, 11), (4, 8), (0, 3), (1,))


def of_complex(name: str, numpy: Oracle, torch: Oracle, **options: Any) -> Case:
    """Return the row of an op of one complex tensor."""
    samples = tuple(sample(shape) for shape in SHAPES)
    return Case(REGISTRY[name], samples, numpy, torch, gradient=False, **options)


def transformed(x: np.ndarray, inverse: bool) -> np.ndarray:
    """Return the oracle's transform of rows, times 0.5."""
    made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
    return (0.5 * made).astype(np.result_type(x, np.complex64))


def convolved(x: Any, inverse: bool) -> Any:
    """Return the transforms of rows, on a device by convolutions, times 0.5."""
    from vkbackend.framework.ops.fourier.rows import _by_convolution

    if not x.is_gpu or not x.shape[0]:
        return rows(x, inverse)
    return _by_convolution(x, inverse, 0.5)


def rows(x: Any, inverse: bool) -> Any:
    """Return the transform of rows, times 0.5."""
    from vkbackend.framework.ops.fourier.rows import fft_rows

    return fft_rows(x, inverse, 0.5)


def half_transform(x: Any, conjugated: bool) -> Any:
    """Return half the transform of real rows, or real rows of one, times 0.5."""
    from vkbackend.framework.ops.fourier.rows import real_rows

    back, size = x.dtype.is_complex, x.shape[1]
    return real_rows(x, 2 * (size - 1) if back else size, back, conjugated, 0.5)


def half_convolved(x: Any, conjugated: bool) -> Any:
    """Return what `half_transform` does, on a device by convolutions."""
    from vkbackend.framework.kernels.fft import takes_convolutions
    from vkbackend.framework.ops.fourier.rows import _real_by_convolution, constant

    back, size = x.dtype.is_complex, x.shape[1]
    half = size - 1 if back else size // 2
    taken = x.is_gpu and x.shape[0] and takes_convolutions(x.device.gpu.info, 4 * half)
    if not taken:
        return half_transform(x, conjugated)
    halves = constant(x, "roots", 2 * half, half + 1)
    return _real_by_convolution(x, halves, half, back, conjugated, 0.5)


def odd_transform(x: Any, conjugated: bool) -> Any:
    """Return half the transform of real rows, times 0.5, by pairs on some devices."""
    from vkbackend.framework.ops.fourier.half import half_transform
    from vkbackend.framework.ops.fourier.rows import odd_rows

    if x.is_gpu:
        return half_transform(x, x.shape[1], 0.5, conjugated)
    return odd_rows(x, conjugated, 0.5)


def half_transformed(x: np.ndarray, conjugated: bool) -> np.ndarray:
    """Return the oracle's `half_transform`."""
    if not np.iscomplexobj(x):
        made = 0.5 * np.fft.rfft(x)
        made = made.conj() if conjugated else made
        return made.astype(np.result_type(x, np.complex64))
    half = x.conj() if conjugated else x
    made = np.fft.irfft(half, 2 * (x.shape[1] - 1), norm="forward")
    return (0.5 * made).astype(x.real.dtype)


PAIRS = (((7, 11), (7, 11)), ((3, 1, 11), (7, 1)), ((0, 3), (3,)), ((1,), (1,)))

COMPLEX = {
    "conj_physical": Case(
        ops.conj_physical,
        tuple(sample(shape) for shape in SHAPES),
        np.conjugate,
        torch.conj_physical,
        exact=True,
    ),
    "real_part": of_complex("real_part", np.real, torch.real, exact=True),
    "imaginary_part": of_complex("imaginary_part", np.imag, torch.imag, exact=True),
    "complex_sign": of_complex("complex_sign", None, torch.sgn),
    "angle": of_complex("angle", np.angle, torch.angle),
    "component": Case(
        lambda x: pairs_of(x),
        tuple(sample(shape) for shape in SHAPES),
        torch=torch.view_as_real,
        exact=True,
        gradient=False,
    ),
    "component_view": Case(
        lambda x: ops.view_as_real(x),
        tuple(sample(shape) for shape in SHAPES),
        torch=torch.view_as_real,
        exact=True,
        gradient=False,
    ),
    "complex_of": Case(
        ops.complex,
        tuple(Sample((Draw(a), Draw(b))) for a, b in PAIRS),
        torch=torch.complex,
        exact=True,
        gradient=False,
    ),
    "complex_bmm": Case(
        lambda a, b: ops.bmm(a, b),
        (
            sample((3, 7, 5), (3, 5, 11)),
            sample((1, 1, 1), (1, 1, 1)),
            sample((0, 2, 3), (0, 3, 2)),
        ),
        np.matmul,
        torch.bmm,
        gradient=False,
        scale=2,  # sums of five products
    ),
    "fft_real": Case(
        half_transform,
        (
            sample((7, 12), conjugated=False),
            sample((1, 2), conjugated=True),
            sample((0, 12), conjugated=False),
        ),
        half_transformed,
        gradient=False,
        scale=4,  # sums of twelve
    ),
    # The kernels of it are GPUs'; see `test_odd_rows`.
    "fft_odd": Case(
        odd_transform,
        (
            sample((7, 11), conjugated=False),
            sample((1, 1), conjugated=True),
            sample((0, 5), conjugated=False),
        ),
        half_transformed,
        gradient=False,
        scale=4,  # sums of eleven
    ),
    # The kernels of it are GPUs'; see `test_real_rows_of_any_length`.
    "fft_real_convolved": Case(
        half_convolved,
        (
            sample((7, 12), conjugated=False),
            sample((1, 2), conjugated=True),
            sample((0, 12), conjugated=False),
        ),
        half_transformed,
        gradient=False,
        scale=8,  # sums of twelve, twice
    ),
    # The kernel of it is GPUs'; see `test_convolutions_by_kernels`.
    "fft_convolved": Case(
        convolved,
        (
            sample((7, 11), inverse=False),
            sample((3, 17), inverse=True),
            sample((1, 1), inverse=True),
            sample((0, 3), inverse=False),
        ),
        transformed,
        gradient=False,
        scale=8,  # sums of seventeen, twice
    ),
    "fft_rows": Case(
        rows,
        (
            sample((7, 12), inverse=False),
            sample((1, 1), inverse=True),
            sample((0, 3), inverse=False),
        ),
        transformed,
        gradient=False,
        scale=4,  # sums of twelve
    ),
}
