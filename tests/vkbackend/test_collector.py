"""The collector is as it was, whatever ends the block; importing leaves it alone."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from vkbackend.collector import (
    DEFERRED_OBJECTS,
    collector_paused,
    defer_collections,
    deferral,
    resume_collections,
)


@pytest.fixture
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.set_threshold(*before)


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


@pytest.mark.usefixtures("_as_it_was")
def test_collections_are_deferred_once() -> None:
    gc.set_threshold(700, 10, 10)
    before = defer_collections()
    assert before == (700, 10, 10)
    assert deferral.active
    assert gc.get_threshold()[0] == DEFERRED_OBJECTS
    assert defer_collections() is None
    resume_collections(None)
    assert deferral.active
    resume_collections(before)
    assert not deferral.active
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.usefixtures("_as_it_was")
def test_what_the_program_sets_stays() -> None:
    for own in (0, DEFERRED_OBJECTS):
        gc.set_threshold(own, 10, 10)
        assert defer_collections() is None
        assert gc.get_threshold()[0] == own
    gc.set_threshold(700, 10, 10)
    before = defer_collections()
    gc.set_threshold(5000, 10, 10)
    resume_collections(before)
    assert gc.get_threshold()[0] == 5000
    assert not deferral.active


@pytest.mark.usefixtures("_as_it_was")
def test_a_training_step_hardly_looks_for_garbage() -> None:
    import vkbackend.framework as fw

    layers = [fw.nn.Sequential(fw.nn.Linear(2, 2), fw.nn.Tanh()) for _ in range(300)]
    model = fw.nn.Sequential(*layers)
    x = fw.ones(1, 2)
    for _ in range(2):
        model(x).sum().backward()
    times: list[int] = []
    gc.collect()
    gc.set_threshold(700, 10, 10)
    found = lambda phase, info: times.append(info["generation"])  # noqa: E731
    gc.callbacks.append(found)
    try:
        model(x).sum().backward()
    finally:
        gc.callbacks.remove(found)
    assert gc.get_threshold() == (700, 10, 10)
    assert len(times) <= 2 * 2  # Calls at both ends; 6 collections otherwise.
