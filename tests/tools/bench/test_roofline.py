"""The machine's limits."""

import vkbackend
from vkbackend.tools.bench.roofline import Ceiling, measure


def test_limits_are_plausible(device: vkbackend.Device) -> None:
    limits = measure(device)
    assert 1e7 < limits.bytes_per_second < 1e14
    assert 1e7 < limits.operations_per_second < 1e15


def test_the_slower_limit_counts() -> None:
    limits = Ceiling(bytes_per_second=10, operations_per_second=100)
    assert limits.seconds(moved=20, operations=100) == 2
    assert limits.seconds(moved=20, operations=400) == 4
