"""KeyboardInterrupt at chosen source lines of the library.

    python -m tests.interruption                at every line of the device layer
    python -m tests.interruption --step 10      at every tenth
    python -m tests.interruption --signals 900  by as many real signals, at any moment

allocates, uploads, dispatches, submits, reads, records and replays, interrupted at one
line after the other; each time the same is then done once more and must be right, and
at last closing must leave nothing. The exit status says whether all was.

A tracing function raises it where a signal could: at the start of any line of the given
sources, but not where a `with` block is left, which no signal can part from its body.
Finalizers are left out: the interpreter swallows what they raise.
"""

import argparse
import dis
import functools
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import vkbackend
from tests.vkbackend.kernels import add_affine, affine, filled, words
from vkbackend import Device
from vkbackend.driver.physical_device import choose

DEVICE_LAYER = str(Path(vkbackend.__file__).parent)


@functools.cache
def _exits(code: CodeType) -> frozenset[int]:
    """Return instructions at which no signal is looked for, in places that matter.

    Those that leave a `with` block load None three times; `try` alone does nothing, but
    a tracing function is called there, outside of the block around it.
    """
    rows = list(dis.get_instructions(code))
    loads = [row.opname == "LOAD_CONST" and row.argval is None for row in rows]
    found = {row.offset for row in rows if row.opname == "NOP"}
    for k in range(len(rows) - 2):
        others = (loads[k + n] or rows[k + n].opname == "DUP_TOP" for n in (1, 2))
        if loads[k] and all(others):
            found.add(rows[k].offset)
            # What is returned from inside goes under them first.
            if k and rows[k - 1].opname in ("SWAP", "ROT_TWO"):
                found.add(rows[k - 1].offset)
    return frozenset(found)


class Interrupter:
    """Counts the lines that an action runs, and interrupts it at one of them.

    Parameters
    ----------
    place : int
        The line to interrupt, counted from 1; 0 interrupts none.
    sources : str
        Folder of the sources that count.

    Attributes
    ----------
    lines : int
        Lines that were run.
    where : str
        File and number of the line that was interrupted; empty if none was.
    """

    def __init__(
        self,
        place: int,
        sources: str = DEVICE_LAYER,
    ) -> None:
        self.place = place
        self.lines = 0
        self.where = ""
        self._sources = sources

    def run(self, action: Callable[[], object]) -> None:
        """Run an action; the interruption itself is caught, whatever else it raises."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            action()
        except KeyboardInterrupt:
            if not self.where:
                raise
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        counts = file.startswith(self._sources)
        return self._line if counts and not _in_finalizer(frame) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_lasti not in _exits(frame.f_code):
            self.lines += 1
            if self.lines == self.place:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._line


def _in_finalizer(frame: FrameType) -> bool:
    above: FrameType | None = frame
    while above is not None and above.f_code.co_filename == frame.f_code.co_filename:
        if above.f_code.co_name == "__del__":
            return True
        above = above.f_back
    return False


def each_interruption(
    action: Callable[[], object],
    step: int = 1,
    first: int = 1,
) -> Iterator[Interrupter]:
    """Run an action again and again, interrupted at every `step`-th line in turn.

    Yields after each run that was interrupted; ends with the first that was not.
    """
    place = first
    while True:
        one = Interrupter(place)
        one.run(action)
        if not one.where:
            return
        yield one
        place += step


COUNT = 300


class Work:
    """A device with something to be done on it, which has a right result."""

    def __init__(self) -> None:
        self.device = Device(choose())
        self.pipeline = affine(self.device)

    def run(self) -> None:
        """Do some of everything, and see that it is right."""
        device = self.device
        x = filled(device, np.arange(COUNT, dtype=np.uint32))
        y, z = device.allocate(x.size), device.allocate(x.size)
        batch = device.batch()
        add_affine(batch, self.pipeline, x, y, 2, 1)
        batch.copy(y, z)
        batch.submit()
        assert (words(device, z) == np.arange(COUNT) * 2 + 1).all()
        again = device.batch()
        add_affine(again, self.pipeline, x, y, 3, 0)
        recording = device.record(again)
        for start in (5, 7):
            source = filled(device, np.full(COUNT, start, np.uint32))
            recording.submit([(source, 0, x, 0, x.size)])
            recording.submit()
            assert (words(device, y) == 3 * start).all()

    def close(self) -> None:
        """Close the device and see that nothing is left."""
        self.device.close()
        assert self.device.live_objects() == {}, self.device.live_objects()


def sweep(step: int, first: int) -> tuple[int, list[str]]:
    """Return how many lines were interrupted, and what was wrong after some of them."""
    made = [Work()]
    wrong = []
    count = 0
    for one in each_interruption(lambda: made[0].run(), step, first):
        count += 1
        try:
            made[0].run()
            if count % 20 == 0:
                made[0].close()
                made[0] = Work()
        except Exception as error:
            wrong.append(f"{one.where}: {type(error).__name__}: {error}")
            made[0] = Work()
    made[0].close()
    return count, wrong


def storm(count: int) -> list[str]:
    """Return what was wrong after some of many real signals, at random moments."""
    random = np.random.default_rng(0)
    work = Work()
    work.run()
    wrong = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    for _ in range(count):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 4e-3))
            # Not for ever: a finalizer may have swallowed the signal.
            for _ in range(20):
                work.run()
        except KeyboardInterrupt:
            pass
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            wrong.append(f"{type(error).__name__}: {error}")
            work = Work()
    signal.signal(signal.SIGALRM, before)
    work.close()
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep as the command line says; the exit status is 0 if all was right."""
    parser = argparse.ArgumentParser(prog="python -m tests.interruption")
    parser.add_argument("--step", type=int, default=1, help="every so many lines")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--signals", type=int, help="so many signals in place of lines")
    given = parser.parse_args(arguments)
    if given.signals:
        count, wrong = given.signals, storm(given.signals)
    else:
        count, wrong = sweep(given.step, given.first)
    for text in wrong:
        print(text)
    print(f"{count} interruptions, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
