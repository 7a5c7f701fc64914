"""KeyboardInterrupt at chosen source lines of the library.

A tracing function raises it where a signal could: at the start of any line of the given
sources, but not where a `with` block is left, which no signal can part from its body.
Finalizers are left out: the interpreter swallows what they raise.
"""

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import vkbackend

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

    def __init__(self, place: int, sources: str = DEVICE_LAYER) -> None:
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
        if not frame.f_code.co_filename.startswith(self._sources):
            return None
        return None if _in_finalizer(frame) else self._line

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
    action: Callable[[], object], step: int = 1, first: int = 1
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
