"""The two clocks: what one run takes."""

from typing import Any

import pytest

from vkbackend.tools.bench.clock import device_seconds, wall_seconds
from vkbackend.tools.bench.workload import Bench


@pytest.mark.parametrize("timer", [device_seconds, wall_seconds])
def test_time_is_that_of_one_run(bench: Bench, place: Any, timer: Any) -> None:
    small, _ = bench.uniform(1 << 12)
    large, _ = bench.uniform(1 << 24)
    timer(place.gpu, lambda: [small.exp()], 1)
    little = timer(place.gpu, lambda: [small.exp()], 8)
    much = timer(place.gpu, lambda: [large.exp()], 2)
    assert 0 < little < much < 5
