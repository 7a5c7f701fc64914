"""cuDNN's switches, as programs set them."""

import vkbackend.framework as fw
from vkbackend.framework.backends import cudnn


def test_switches() -> None:
    assert fw.backends.cudnn is cudnn
    cudnn.benchmark = True
    cudnn.deterministic = True
    assert not cudnn.is_available()
    assert cudnn.version() is None
