"""The collector is as it was, whatever ends the block; importing leaves it alone."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from vkbackend.collector import collector_paused


@pytest.fixture
def _as_it_was() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.usefixtures("_as_it_was")
def test_it_is_as_it_was(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled
    with pytest.raises(ImportError), collector_paused():
        raise ImportError
    assert gc.isenabled() is enabled


def test_importing_hardly_looks_for_garbage_and_leaves_the_collector_on() -> None:
    program = (
        "import gc, numpy, vkbackend\n"
        "phases = []\n"
        "gc.callbacks.append(lambda phase, _: phases.append(phase))\n"
        "import vkbackend.framework\n"
        "print(gc.isenabled(), phases.count('start'))"
    )
    command = (sys.executable, "-c", program)
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    enabled, times = told.split()
    assert enabled == "True"
    assert int(times) < 40  # 8 do, and 85 of a collector that is not paused
