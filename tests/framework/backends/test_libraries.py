"""Libraries that PyTorch may use."""

import vkbackend.framework as fw


def test_none_is_used() -> None:
    for library in (fw.backends.mkl, fw.backends.mkldnn, fw.backends.openmp):
        assert not library.is_available()
