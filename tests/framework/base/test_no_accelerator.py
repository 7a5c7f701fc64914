"""Accelerators that there are none of."""

import pytest

from vkbackend import NoVulkanError
from vkbackend.framework.base.no_accelerator import Accelerator


def test_what_needs_one_raises() -> None:
    none = Accelerator("cuda")
    assert not none.is_available()
    with none.device(0):
        assert none.max_memory_allocated() == 0
    with pytest.raises(NoVulkanError) as raised:
        none.absent("Stream")()
    assert str(raised.value) == (
        "cuda.Stream: there is no cuda device; this library runs on Vulkan devices,"
        ' device("gpu"), and on the host'
    )
