"""Measurement of one case on both sides, with the results compared."""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.errors import DTypeError

from ..baseline import Peer
from ..clock import device_seconds, keep_busy, wall_seconds
from .forms import Given, flatten
from .plan import BOTH, FORWARD, SweepCase
from .processes import Turns
from .sides import (
    Arbiter,
    Here,
    Inputs,
    NoGradientError,
    Run,
    Side,
    Torch,
    bound,
    exact,
)

_ROUNDS = 3
_UNCOUNTED, _MOST_ALONE = 4, 15
_PREPARED = 5.0
"""Share of a side's time that calls which do not count may take, or they do."""
_MAX_REPEATS = 400
_PATIENCE = 3.0
"""Seconds that a peer on the host may take for a call; after that it has none."""
_ARBITRATION = 180.0
"""Seconds that the arbiter may take; after that there is none. PyTorch's
logcumsumexp of 16 Mi takes 20 on a quiet host, 55 beside others."""
_WARM_UPS = 3
"""Calls in which a plan's commands come to be recorded, before those that count."""
_BUSY = 0.03
"""Seconds of work before a GPU is timed, which waited as inputs were made and results
compared: the side that is timed first would be slower."""
_BUSY_STILL = 0.005
"""Seconds since another process timed within which the clock is as it left it."""

_SLOW = 0.5
"""Seconds of a call that is not repeated for a better time."""
_COMPARED = 1 << 17
"""Elements of a result that are compared: the first and the last."""

TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float64": 1e-7,
}
"""Largest differences, as shares of the largest result; of whole numbers it is 1e-5."""

_LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}
"""Differences of numbers near 0 that are one step, however large a share they are."""


class Times(NamedTuple):
    """Times of one side in seconds: in a row, and evaluated alone."""

    together: float
    alone: float


class Measured(NamedTuple):
    """What was found of one case.

    Attributes
    ----------
    ours : Times
    theirs : Times or None
        None where the peer has no such function, or refuses the call.
    error : float or None
        Largest difference, as a share of the largest result; None where results are
        not compared. From the peer's results, or from the arbiter's if that is too
        large and the peer is farther from them.
    wall : bool
        Whether the times in a row are the host's clock's.
    moved : int
        Bytes of inputs and results.
    """

    ours: Times
    theirs: Times | None
    error: float | None
    wall: bool
    moved: int


class Bed(NamedTuple):
    """What cases are measured with.

    Attributes
    ----------
    here, there : Side
    inputs : Inputs
    peer : Peer
    gpu : vkbackend.Device
    seconds : float
        Time in a row for each side of a case.
    turns : Turns
        Taken while something is timed.
    """

    here: Here
    there: Side
    inputs: Inputs
    peer: Peer
    gpu: Any
    seconds: float
    turns: Turns

    @property
    def software(self) -> bool:
        """Whether the device is one in software."""
        return bool(self.gpu.info.kind == "software")

    def warm(self) -> None:
        """Keep a GPU busy until its clock has risen, if the last turn did not."""
        if self.software or self.turns.idle < _BUSY_STILL:
            return
        x = self.inputs.of(Given((2048, 2048)), "float32")[0]
        keep_busy(self.gpu, x, _BUSY)

    def typical(self, times: Sequence[float]) -> float:
        """Return the median time; in software the least, as others use the cores."""
        return min(times) if self.software else statistics.median(times)


class RefusedError(Exception):
    """A call that both sides refuse."""


def measure(case: SweepCase, bed: Bed) -> Measured:
    """Compare the results of both sides, then time both.

    Raises
    ------
    RefusedError
        If neither side takes the call, or the peer has no such function and the dtype
        is refused here.
    NoGradientError
        If there are no gradients to measure.
    Exception
        Whatever the call raises here, where the peer takes it.
    """
    runs = [_bound(case, bed, which) for which in (0, 1)]
    ours, mine, failure = _tried(runs[0])
    with limited(_PATIENCE if not bed.peer.cuda else None):
        theirs, wanted, refusal = _tried(runs[1])
    if failure is not None:
        refused = isinstance(failure, DTypeError) or case.direction == BOTH
        nowhere = theirs is None and (runs[1] is not None or refused)
        if isinstance(failure, NoGradientError) or nowhere:
            raise RefusedError(str(failure)) from failure
        raise failure
    if isinstance(refusal, NoGradientError):
        raise refusal
    assert ours is not None
    options = case.unit.options
    error = None
    known = case.direction == FORWARD or options.peer_gradients
    if theirs is not None and options.compared and known and wanted is not None:
        if bed.peer.cuda:
            with exact(bed.peer):
                wanted = theirs()
        error = _error(case, bed, mine, wanted)
    tensors = [bed.inputs.of(each, case.dtype)[0] for each in flatten(case.arguments)]
    moved = sum(each.nbytes for each in (*tensors, *mine))
    del mine, wanted
    with bed.turns.taken():
        here, wall, there = _timed(bed, ours, theirs)
        bed.turns.left_busy = not wall
    return Measured(here, there, error, wall, moved)


def _timed(bed: Bed, ours: Run, theirs: Run | None) -> tuple[Times, bool, Times | None]:
    """Return our times, whether the host's clock is meant, and the peer's times."""
    bed.warm()
    together, wall = _ours_together(bed, ours)
    here = Times(together, _alone(bed, ours, lambda: bed.gpu.synchronize(), True))
    if theirs is None:
        return here, wall, None

    def peers(repeat: int) -> float:
        return _peer_seconds(bed.peer, theirs, repeat, wall)

    there = Times(
        _in_a_row(bed, peers), _alone(bed, theirs, bed.peer.synchronize, False)
    )
    return here, wall, there


def _error(
    case: SweepCase, bed: Bed, mine: Sequence[Any], wanted: Sequence[Any]
) -> float:
    """Return the error of results: see `Measured`."""
    count = case.unit.options.results if case.direction == FORWARD else None
    mine, wanted = mine[:count], wanted[:count]
    hosts = bed.here.host, bed.there.host
    least = _LEAST.get(case.dtype, 0.0)
    error = difference(hosts, mine, wanted, least)
    if error <= TOLERANCES.get(case.dtype, 1e-5) or not isinstance(bed.there, Torch):
        return error
    arbiter = Arbiter(bed.peer)
    inputs = Inputs(arbiter, on_gpu=False)
    found = bound(arbiter, 0, case.unit, case.arguments, case.dtype, inputs)
    if found is None:
        return error
    with limited(_ARBITRATION):
        _, right, _ = _tried(found[0] if case.direction == FORWARD else found[1])
    if right is None:
        return error
    right = right[:count]
    of_ours = difference((hosts[0], arbiter.host), mine, right, least)
    of_theirs = difference((hosts[1], arbiter.host), wanted, right, least)
    return of_ours if of_ours < of_theirs else error


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` inside after so many seconds, where signals do that.

    A thread sends the signal to this one: of a timer's, any thread of the process may
    take it, and where that is none of Python's, the interpreter does not look for it.
    """
    if seconds is None or not hasattr(signal, "pthread_kill"):
        yield
        return
    running = True

    def stop(number: int, frame: object) -> None:
        if running:
            raise TimeoutError(f"it took longer than {seconds} s")

    target, number = threading.get_ident(), signal.SIGALRM
    before = signal.signal(number, stop)
    timer = threading.Timer(seconds, lambda: signal.pthread_kill(target, number))
    timer.daemon = True
    try:
        try:
            timer.start()
            yield
        finally:
            running = False
            timer.cancel()
            timer.join()
    finally:
        # Also if the signal comes as the block ends.
        signal.signal(number, before)


def _bound(case: SweepCase, bed: Bed, which: int) -> Run | None:
    side: Side = bed.there if which else bed.here
    found = bound(side, which, case.unit, case.arguments, case.dtype, bed.inputs)
    if found is None:
        return None
    return found[0] if case.direction == FORWARD else found[1]


def _tried(run: Run | None) -> tuple[Run | None, Any, Exception | None]:
    """Return what can be run, its results, and the error if it cannot."""
    if run is None:
        return None, None, None
    try:
        results = run()
        fw.eval(*[each for each in results if isinstance(each, fw.Tensor)])
    except Exception as error:
        return None, None, error
    return run, results, None


def _ours_together(bed: Bed, run: Run) -> tuple[float, bool]:
    """Return the time of one of many runs, and whether it is the host's clock's."""

    def on_device(repeat: int) -> float:
        return device_seconds(bed.gpu, run, repeat)

    def on_host(repeat: int) -> float:
        return wall_seconds(bed.gpu, run, repeat)

    # The first run after the one compared can compile once more: what was replayed from
    # a known tape is another graph.
    reads = bed.gpu.counters.host_reads
    once = on_host(1)
    # What the host computes of a result that it reads is in no time of the device's.
    on_both = bed.gpu.counters.host_reads > reads
    if bed.software:
        if once < _SLOW:
            on_host(_WARM_UPS)
        return _in_a_row(bed, on_host), True
    for _ in range(_WARM_UPS):
        if once <= _SLOW:
            break
        # A run that compiled, which the next one may do again, says nothing.
        built = bed.gpu.counters.pipeline_builds
        once = min(once, on_host(1))
        if bed.gpu.counters.pipeline_builds == built:
            break
    if once > _SLOW:
        return once, True
    # What starts no kernel, as a view, takes no time on the device.
    if not on_both and on_device(1):
        return _in_a_row(bed, on_device), False
    return _in_a_row(bed, on_host), True


def _in_a_row(bed: Bed, timer: Callable[[int], float]) -> float:
    """Return the time of one run in a few batches of about that long."""
    seconds = bed.seconds
    once = timer(1)
    if once > seconds:
        return min(once, timer(1)) if once < 10 * seconds else once
    repeat = max(1, min(_MAX_REPEATS, round(seconds / _ROUNDS / max(once, 1e-9))))
    return bed.typical([timer(repeat) for _ in range(_ROUNDS)])


def _peer_seconds(peer: Peer, run: Run, repeat: int, wall: bool) -> float:
    """Return the peer's time of one run; on the host it does not rest after it."""
    if peer.cuda:
        return peer.seconds(run, repeat, wall)
    start = time.perf_counter()
    for _ in range(repeat):
        run()
    return (time.perf_counter() - start) / repeat


def _alone(bed: Bed, run: Run, wait: Callable[[], Any], here: bool) -> float:
    """Return the time of one call whose result is waited for at once.

    The first calls do not count unless they are slow: their results, beside those of
    the call before, take memory from the driver, and their commands are recorded.
    """
    results: Sequence[Any] = ()

    def taken() -> float:
        nonlocal results
        start = time.perf_counter()
        results = run()
        if here:
            fw.eval(*results)
        wait()
        return time.perf_counter() - start

    wait()
    times: list[float] = []
    while len(times) < _UNCOUNTED:
        times.append(taken())
        if sum(times) > _PREPARED * bed.seconds:
            return bed.typical(times)
    until = time.perf_counter() + bed.seconds / 2
    times = [taken()]
    while len(times) < _MOST_ALONE and time.perf_counter() < until:
        times.append(taken())
    return bed.typical(times)


def difference(
    hosts: tuple[Callable[[Any], np.ndarray[Any, Any]], ...],
    mine: Sequence[Any],
    wanted: Sequence[Any],
    least: float = 0.0,
) -> float:
    """Return the largest difference, as a share of the largest result.

    It is infinite where shapes or their count differ, or a result is in one place only.

    Parameters
    ----------
    hosts : tuple of callable
        Return the elements of a tensor, of `mine` and of `wanted`.
    mine, wanted : sequence of tensors
    least : float
        Differences up to this are none.
    """
    if len(mine) != len(wanted):
        return float("inf")
    found = [0.0]
    for ours, theirs in zip(mine, wanted, strict=True):
        if tuple(ours.shape) != tuple(theirs.shape):
            return float("inf")
        for part, expected in zip(_ends(ours), _ends(theirs), strict=True):
            found.append(apart(hosts[0](part), hosts[1](expected), least))
    return max(found)


def apart(
    actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], least: float = 0.0
) -> float:
    """Return the largest difference of arrays, as a share of the largest element.

    Elements that are the same infinity, or NaN in both, do not differ, nor those that
    differ by `least` at most.
    """
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected)
        scale = float(np.abs(expected[finite]).max(initial=0)) or 1.0
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        apart_by = np.abs(actual - expected)
        differences = np.where(same | (apart_by <= least), 0, apart_by)
    if np.isnan(differences).any():
        return float("inf")
    return float(differences.max(initial=0)) / scale


def _ends(tensor: Any) -> list[Any]:
    """Return the first and the last elements, where there are many."""
    flat = tensor.detach().reshape(-1)
    if flat.shape[0] <= 2 * _COMPARED:
        return [flat]
    return [flat[:_COMPARED], flat[-_COMPARED:]]
