"""A wish for a kernel of attention is checked and has no effect."""

import pytest

from vkbackend.framework.nn.attention import SDPBackend, sdpa_kernel


def test_wishes() -> None:
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        pass
    with (
        pytest.raises(AssertionError, match="must be an SDPBackend"),
        sdpa_kernel("math"),
    ):
        pass
