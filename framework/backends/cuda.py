"""NVIDIA's CUDA: there is none; the switches of its products are kept without effect.

`fw.set_float32_matmul_precision` chooses the precision of products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..nn.attention.backend import SDPBackend

__all__ = [
    "SDPBackend",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


class _Products:
    """Switches of matrix products, without an effect."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Products()


def is_built() -> bool:
    """Return False: the library does not use CUDA."""
    return False


def flash_sdp_enabled() -> bool:
    """Return True: attention chooses its kernel itself."""
    return True


def mem_efficient_sdp_enabled() -> bool:
    """Return True: attention chooses its kernel itself."""
    return True


def math_sdp_enabled() -> bool:
    """Return True: attention chooses its kernel itself."""
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Do nothing: attention chooses its kernel itself."""


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Do nothing: attention chooses its kernel itself."""


def enable_math_sdp(enabled: bool) -> None:
    """Do nothing: attention chooses its kernel itself."""


def enable_cudnn_sdp(enabled: bool) -> None:
    """Do nothing: attention chooses its kernel itself."""


def cudnn_sdp_enabled() -> bool:
    """Return False: there is no such library."""
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Return a block in which nothing changes: attention chooses its kernel itself."""
    yield


def preferred_linalg_library(backend: Any = None) -> str:
    """Return "default", the one library; another wish has no effect."""
    return "default"


def preferred_blas_library(backend: Any = None) -> str:
    """Return "default", the one library; another wish has no effect."""
    return "default"


class _PlanCache:
    """Cache of transforms that cuFFT would have."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Do nothing: there is nothing in it."""


cufft_plan_cache = _PlanCache()
