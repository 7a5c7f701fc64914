"""Kernels kept by a caller: once per content, counted."""

from vkbackend import Device, KernelCache


def test_each_content_once(device: Device) -> None:
    cache = KernelCache(device)
    constants = {"LOCAL_X": 64, "OPERATION": 1}
    first = cache.kernel("arrays/binary", {}, constants)
    assert cache.kernel("arrays/binary", {}, dict(reversed(constants.items()))) is first
    assert (len(cache), cache.compiles, cache.hits) == (1, 1, 1)
    other = cache.kernel("arrays/binary", {}, {**constants, "OPERATION": 2})
    assert other is not first
    assert (len(cache), cache.compiles, cache.hits) == (2, 2, 1)


def test_a_new_cache_builds_nothing_that_the_device_has(device: Device) -> None:
    constants = {"LOCAL_X": 64, "OPERATION": 3}
    first = KernelCache(device).kernel("arrays/binary", {}, constants)
    before = device.counters.snapshot()
    again = KernelCache(device)
    assert again.kernel("arrays/binary", {}, constants) is first
    assert again.compiles == 1
    assert (device.counters - before).pipeline_builds == 0
