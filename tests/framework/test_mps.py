"""Apple's Metal, as programs ask for it."""

import pytest

import vkbackend.framework as fw
from vkbackend import NoVulkanError


def test_there_is_none() -> None:
    assert not fw.mps.is_available()
    with pytest.raises(NoVulkanError, match=r"^mps.driver_allocated_memory"):
        fw.mps.driver_allocated_memory()
