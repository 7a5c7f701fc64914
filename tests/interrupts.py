"""Interrupts: Ctrl-C at any line of a training step loses nothing.

    python -m tests.interrupts                       every line, each kind of training
    python -m tests.interrupts --every 40 --from 3   one line in so many
    python -m tests.interrupts --twice               a second interrupt soon after
    python -m tests.interrupts --signals 2000        real ones, at random moments
    python -m tests.interrupts --errors              no memory, or no kernel

After each interrupt, or error, every array must be readable and hold what it held
before the step or what the step makes of it, to the bit; training that goes on from a
checkpoint, and one that begins anew, must end like those that nothing interrupted. The
exit status says whether all did.
"""

import argparse
import functools
import itertools
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

import vkbackend
import vkbackend.framework as fw
from tests.interrupted_job import STEPS, Job, Reference, wrong
from tests.tree import FOLDERS
from vkbackend.framework.base.device import Device

Place = tuple[str, int]

SOURCES = tuple(str(FOLDERS[name]) for name in ("vkbackend", "vkbackend.framework"))
GENERATED = vkbackend.vk.generated.__file__

KINDS = {
    "eager, cold": (False, 0),
    "eager, warm": (False, 3),
    "jit, first call": (True, 0),
    "jit, replay": (True, 3),
}
"""Whether the step is jitted, and how many steps run before the one interrupted."""

AFTER = 2
"""Steps that are made after an interrupt, from a checkpoint and anew."""

ANEW = 4
"""One in so many interrupts after which a training is begun anew, which takes long."""


class Interrupted:
    """Raises KeyboardInterrupt at the first run of a line, and perhaps soon after.

    Parameters
    ----------
    place : (str, int) or None
        File and line; None only notes the lines that are run.
    again : int
        Lines until the second interrupt; 0 for none.
    """

    def __init__(self, place: Place | None, again: int = 0) -> None:
        self.place, self.again = place, again
        self.seen: dict[Place, None] = {}
        self.count = 0
        self.left = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(SOURCES) or file == GENERATED:
            return None
        return self.local

    def local(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            here = frame.f_code.co_filename, frame.f_lineno
            if self.place is None:
                self.seen[here] = None
            elif self.left:
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt
            elif not self.count and here == self.place:
                self.count, self.left = 1, self.again
                raise KeyboardInterrupt
        return self.local

    def run(self, function: Callable[[], object]) -> None:
        """Call a function, and catch the interrupt."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            function()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)


class Check:
    """What must hold after an interrupt of one kind of training."""

    def __init__(self, device: Device, name: str, jitted: bool) -> None:
        self.device, self.name, self.jitted = device, name, jitted
        self.references = [Reference(device, name, kind) for kind in (False, True)]
        self.reference = self.references[jitted]
        self.checks = 0
        self.anew()

    def anew(self) -> None:
        """Begin with a job that nothing has happened to."""
        self.job = Job(self.device, self.name, self.jitted)
        self.job.step(0)

    def begin(self, steps: int, fresh: bool) -> int:
        """Load the checkpoint and make some steps; return the number of the next."""
        if fresh:
            self.job.fresh_step()
        self.job.load(self.reference.checkpoint)
        for number in range(1, 1 + steps):
            self.job.step(number)
        return 1 + steps

    def after(self, number: int, failed: bool = False) -> list[str]:
        """Return what is wrong after the step of a number was interrupted.

        Where it failed, gradients may say so instead of being there.
        """
        try:
            said = self.job.gradients()
            if failed and not self.jitted:
                said = [each for each in said if "injected" not in each]
            return said + self._after(number)
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]

    def _after(self, number: int) -> list[str]:
        states = [each.states[number + k] for each in self.references for k in (0, 1)]
        found = [f"{each} is neither" for each in wrong(self.job.arrays(), *states)]
        found += [f"{each} resumed" for each in self._differs(self.job, 1)]
        self.checks += 1
        if self.checks % ANEW and not found:
            return found
        fw.manual_seed(7)
        fresh = Job(self.device, self.name, self.jitted)
        return found + [f"{each} anew" for each in self._differs(fresh, 0)]

    def _differs(self, job: Job, first: int) -> list[str]:
        """Return what differs after some steps of a training."""
        if first:
            job.load(self.reference.checkpoint)
        for number in range(first, first + AFTER):
            job.step(number)
        wanted = [each.states[first + AFTER] for each in self.references]
        return wrong(job.arrays(), *wanted)


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of interrupts in finalizers, which Python only reports."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    try:
        yield
    finally:
        sys.unraisablehook = before


def lines_of(check: Check, steps: int, fresh: bool) -> list[Place]:
    """Return the lines that a step runs."""
    number = check.begin(steps, fresh)
    noted = Interrupted(None)
    noted.run(lambda: check.job.step(number))
    return list(noted.seen)


def sweep(
    check: Check, kind: str, every: int = 1, first: int = 0, twice: bool = False
) -> tuple[int, list[str]]:
    """Interrupt a step at its lines; return how many, and what was wrong."""
    jitted, steps = KINDS[kind]
    fresh = jitted and not steps
    places = lines_of(check, steps, fresh)[first::every]
    failures, count = [], 0
    check.job.fresh_step()
    rng = random.Random(first)
    with quiet():
        for place in places:
            number = check.begin(steps, fresh)
            again = rng.randint(1, 30) if twice else 0
            interrupted = Interrupted(place, again)
            interrupted.run(lambda number=number: check.job.step(number))  # type: ignore[misc]
            count += interrupted.count
            found = check.after(number)
            if found:
                where = f"{os.path.relpath(place[0])}:{place[1]} +{again}"
                failures.append(f"{check.name}, {kind}, {where}: {'; '.join(found)}")
                check.anew()
    return count, failures


PLACES = {
    "allocate": lambda device: device.gpu,
    "allocate_each": lambda device: device.gpu,
    "pipeline": lambda device: device.gpu,
    "record": lambda device: device.gpu,
    "batch": lambda device: device.gpu,
    "submit": lambda _: vkbackend.Batch,
    "submit again": lambda _: vkbackend.Recording,
}
"""Where errors come from: functions of what is returned for a device."""

ERRORS: dict[str, tuple[BaseException, int]] = {
    "no memory": (vkbackend.OutOfDeviceMemory("injected: no memory"), 1),
    "no memory any more": (vkbackend.OutOfDeviceMemory("injected: none"), 1 << 30),
    "no kernel": (vkbackend.ShaderError("injected: no kernel"), 1),
    "no kernel any more": (vkbackend.ShaderError("injected: no kernels"), 1 << 30),
    "interrupt": (KeyboardInterrupt(), 1),
}
"""What comes from there, and how often."""


class Failing:
    """Lets calls of a function raise an error.

    Parameters
    ----------
    function : callable
    at : int
        The first such call, from 0.
    error : BaseException
    often : int
        How many calls do.
    """

    def __init__(
        self, function: Callable[..., Any], at: int, error: BaseException, often: int
    ) -> None:
        self.function, self.error = function, error
        self.left, self.last = at, -often

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.last <= self.left < 0:
            raise self.error
        return self.function(*args, **kwargs)


def inject(
    check: Check, kind: str, place: str, error: str, every: int = 1, first: int = 0
) -> tuple[int, list[str]]:
    """Let each call of a function fail in turn; return how many, and what was wrong."""
    jitted, steps = KINDS[kind]
    owner = PLACES[place](check.device)
    name = place.split()[0]
    failures, count = [], 0
    check.job.fresh_step()
    for at in itertools.count(first, every):
        number = check.begin(steps, jitted and not steps)
        failing = Failing(getattr(owner, name), at, *ERRORS[error])
        # A function of a class is called with what it belongs to.
        called: Any = failing
        if isinstance(owner, type):
            called = functools.partialmethod(failing)
        with mock.patch.object(owner, name, called):
            try:
                check.job.step(number)
            except (vkbackend.Error, KeyboardInterrupt):
                pass
        if failing.left >= 0:
            return count, failures
        count += 1
        found = check.after(number, failed=error != "interrupt")
        if found:
            where = f"{check.name}, {kind}, {error} in call {at} of {place}"
            failures.append(f"{where}: {'; '.join(found)}")
            check.anew()
    raise AssertionError("unreachable")


def storm(check: Check, signals: int, seed: int) -> list[str]:
    """Send real SIGINTs while steps are made; return what was wrong."""
    rng = random.Random(seed)
    failures = []
    armed, heard = threading.Event(), threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        heard.set()
        raise KeyboardInterrupt

    # A shell lets what it starts in the background ignore them.
    before = signal.signal(signal.SIGINT, interrupt)
    delays: list[float] = []

    def send() -> None:
        for _ in range(signals):
            armed.wait()
            armed.clear()
            time.sleep(delays[-1])
            os.kill(os.getpid(), signal.SIGINT)

    number = check.begin(0, fresh=False)
    start = time.perf_counter()
    for _ in range(4):
        check.job.step(number)
    seconds = (time.perf_counter() - start) / 4
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    for count in range(signals):
        # Each fifth time the first call, which takes longer.
        fresh = check.jitted and count % 5 == 0
        number = check.begin(0, fresh)
        delays.append(rng.uniform(0, seconds * (30 if fresh else 3)))
        heard.clear()
        try:
            armed.set()
            for number in itertools.count(1):
                # A finalizer may have swallowed it.
                if heard.is_set():
                    break
                if number < STEPS:
                    check.job.step(number)
        except KeyboardInterrupt:
            pass
        found = check.after(min(number, STEPS - 1))
        if found:
            failures.append(f"{check.name}, signal {count}: {'; '.join(found)}")
    sender.join()
    signal.signal(signal.SIGINT, before)
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Interrupt as the command line says; the exit status is 0 if nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.interrupts")
    parser.add_argument("--every", type=int, default=1, help="one line in so many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="which")
    parser.add_argument("--kind", help='one of them alone, as "SGD, eager, warm"')
    parser.add_argument("--twice", action="store_true", help="two interrupts each")
    parser.add_argument("--signals", type=int, default=0, help="real ones instead")
    parser.add_argument("--errors", action="store_true", help="errors instead")
    parser.add_argument("--seed", type=int, default=0, help="when signals are sent")
    parser.add_argument("--device", help="a device's name or number; default the best")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    device = fw.device(given.device)
    failures: list[str] = []
    for name, jitted in itertools.product(("AdamW", "SGD"), (False, True)):
        if given.kind and not given.kind.startswith(
            f"{name}, {'jit' if jitted else 'e'}"
        ):
            continue
        check = Check(device, name, jitted)
        if given.signals:
            with quiet():
                found = storm(check, -(-given.signals // 4), given.seed)
            kind = "jit" if jitted else "eager"
            print(
                f"{name}, {kind}: {-(-given.signals // 4)} signals,"
                f" {len(found)} failures",
                flush=True,
            )
            failures += found
            continue
        kinds = [kind for kind, (each, _) in KINDS.items() if each is jitted]
        if given.errors:
            for kind, place, error in itertools.product(kinds, PLACES, ERRORS):
                count, found = inject(check, kind, place, error, given.every)
                failures += found
                print(
                    f"{name}, {kind}, {error} in {place}: {count} calls,"
                    f" {len(found)} failures",
                    flush=True,
                )
            continue
        for kind in [kind for kind in kinds if given.kind in (None, f"{name}, {kind}")]:
            start = time.monotonic()
            count, found = sweep(check, kind, given.every, given.first, given.twice)
            seconds = time.monotonic() - start
            print(
                f"{name}, {kind}: {count} lines, {len(found)} failures,"
                f" {seconds:.0f} s",
                flush=True,
            )
            failures += found
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
