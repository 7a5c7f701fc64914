"""The collector is as it was, whatever ends the block; importing leaves it alone."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from vkbackend.collector import (
    DEFERRED_OBJECTS,
    KEPT_OBJECTS,
    collector_paused,
    defer_collections,
    deferral,
    resume_after_backward,
    resume_collections,
)


@pytest.fixture
def _as_it_was() -> Iterator[None]:
    """Begin with Python's thresholds and nothing deferred; restore both."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    deferral.__init__()  # type: ignore[misc]  # as in a new process
    yield
    gc.enable()
    gc.set_threshold(*before)
    deferral.__init__()  # type: ignore[misc]


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
    assert defer_collections()
    assert deferral.active
    assert gc.get_threshold() == (DEFERRED_OBJECTS, 10, 10)
    assert not defer_collections()
    resume_collections(tape=False)
    assert not deferral.active
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.usefixtures("_as_it_was")
def test_collections_are_deferred_while_a_training_leaves_few_objects() -> None:
    for _ in range(2):
        assert defer_collections()
        resume_collections(tape=True)
        assert not deferral.active
        assert defer_collections()
        resume_after_backward()
        assert defer_collections()
        resume_collections(tape=False)  # of an evaluation
        assert gc.get_threshold()[0] == DEFERRED_OBJECTS
    left: list[list[object]] = [[] for _ in range(2 * KEPT_OBJECTS)]
    assert defer_collections()
    resume_after_backward()
    assert gc.get_threshold() == (700, 10, 10)
    del left
    assert defer_collections()
    resume_collections(tape=False)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.usefixtures("_as_it_was")
def test_what_the_program_sets_stays() -> None:
    for own in (0, DEFERRED_OBJECTS):
        gc.set_threshold(own, 10, 10)
        assert not defer_collections()
        assert gc.get_threshold()[0] == own
    for tape in (False, True):
        gc.set_threshold(700, 10, 10)
        assert defer_collections()
        if tape:
            resume_collections(tape=True)
        gc.set_threshold(5000, 10, 10)
        if tape:
            assert defer_collections()
            assert gc.get_threshold()[0] == DEFERRED_OBJECTS
            deferral.kept = False
        resume_collections(tape=False)
        assert gc.get_threshold()[0] == 5000
        assert not deferral.active


@pytest.mark.usefixtures("_as_it_was")
def test_without_gradients_collections_are_deferred_for_a_call() -> None:
    import vkbackend.framework as fw

    seen = []

    class Seen(fw.nn.Module):
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            seen.append(gc.get_threshold()[0])
            return x

    with fw.no_grad():
        fw.nn.Sequential(Seen(), Seen())(fw.ones(2))
    assert seen == [DEFERRED_OBJECTS] * 2
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.usefixtures("_as_it_was")
def test_training_steps_do_not_look_for_garbage() -> None:
    import vkbackend.framework as fw

    layers = [fw.nn.Sequential(fw.nn.Linear(2, 2), fw.nn.Tanh()) for _ in range(300)]
    model = fw.nn.Sequential(*layers)
    x = fw.ones(1, 2)
    times: list[int] = []
    for turn in range(5):
        loss = model(x).sum()
        loss.backward()
        if turn == 1:
            gc.callbacks.append(lambda phase, info: times.append(info["generation"]))
    gc.callbacks.pop()
    assert not times  # Three collections in each step otherwise.
