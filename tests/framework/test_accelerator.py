"""The accelerator is the Vulkan device."""

import gc
from typing import Any

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


@pytest.mark.usefixtures("_no_collector")
def test_memory_of_a_device(gpu: Any) -> None:
    accelerator = fw.accelerator
    # What earlier work holds until its end is not counted any more.
    fw.eval()
    accelerator.synchronize()
    gc.collect()
    before = accelerator.memory_allocated(gpu)
    x = fw.zeros(1 << 18, device=gpu)
    fw.eval(x)
    with_x = accelerator.memory_allocated(gpu)
    assert with_x >= before + (1 << 20)
    assert accelerator.max_memory_allocated(gpu) >= with_x
    del x
    accelerator.reset_peak_memory_stats(gpu)
    assert accelerator.max_memory_allocated(gpu) == accelerator.memory_allocated(gpu)
    assert accelerator.memory_allocated(gpu) < with_x
    reserved = accelerator.memory_reserved(gpu)
    assert accelerator.max_memory_reserved(gpu) == reserved
    accelerator.empty_cache()
    assert accelerator.memory_reserved(gpu) <= reserved
    assert accelerator.memory_stats(gpu)["in_use"] == accelerator.memory_allocated(gpu)
    free, total = accelerator.get_memory_info(gpu)
    assert 0 <= free <= total
    assert accelerator.memory_allocated("cpu") == 0
    with pytest.raises(ValueError, match="which is the host; it must be a Vulkan"):
        accelerator.get_memory_info("cpu")
