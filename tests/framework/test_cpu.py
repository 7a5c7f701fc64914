"""The host is one device, and always there."""

import vkbackend.framework as fw


def test_the_host_is_there() -> None:
    assert fw.cpu.is_available()
    assert fw.cpu.device_count() == 1
    fw.cpu.synchronize()
    with fw.cpu.stream(None):
        assert fw.cpu.current_device() == "cpu"
