"""The accelerator is the Vulkan device."""

import pytest

import vkbackend.framework as fw


@pytest.mark.device
def test_the_accelerator_is_the_best_device() -> None:
    assert fw.accelerator.is_available()
    assert fw.accelerator.device_count() == len(fw.devices()) - 1
    assert fw.accelerator.current_accelerator() is fw.device("gpu")
    fw.accelerator.synchronize()
    with pytest.raises(NotImplementedError, match=r"device=fw.device\(1\)"):
        fw.accelerator.set_device_index(1)
