"""NVIDIA's CUDA: there is none; the switches of its products are kept without effect.

`fw.set_float32_matmul_precision` chooses the precision of products.
"""

from __future__ import annotations

__all__ = [
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
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
