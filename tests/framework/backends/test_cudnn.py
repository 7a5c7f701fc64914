"""cuDNN's switches, as programs set them."""

import vkbackend.framework as fw
from vkbackend.framework.backends import cudnn


def test_switches() -> None:
    assert fw.backends.cudnn is cudnn
    cudnn.benchmark = True
    cudnn.deterministic = True
    assert not cudnn.is_available()
    assert cudnn.version() is None


def test_flags_come_back() -> None:
    from vkbackend.framework.backends import cudnn

    before = cudnn.benchmark
    with cudnn.flags(enabled=False, benchmark=not before):
        assert cudnn.benchmark is not before
        assert not cudnn.enabled
    assert cudnn.benchmark is before
    assert cudnn.enabled
