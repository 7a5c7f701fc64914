"""Switches of CUDA's products and attention."""

import vkbackend.framework as fw


def test_switches() -> None:
    cuda = fw.backends.cuda
    assert not cuda.is_built()
    cuda.matmul.allow_tf32 = True
    cuda.enable_flash_sdp(False)
    assert cuda.flash_sdp_enabled()
