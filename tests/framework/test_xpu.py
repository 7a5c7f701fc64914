"""Intel's accelerators, as programs ask for them."""

import pytest

import vkbackend.framework as fw
from vkbackend import NoVulkanError


def test_there_are_none() -> None:
    assert fw.xpu.device_count() == 0
    with pytest.raises(NoVulkanError, match=r"^xpu.set_device"):
        fw.xpu.set_device(0)
