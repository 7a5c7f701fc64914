"""Progress: operations that wait for other processes, side by side.

An operation is a generator that yields conditions, and goes on once they hold. All that
were started go on whenever one of them is waited for. Where nothing goes on, three
things end the wait with an error: a process that has ended, one that has given up the
same group, and a circle of processes each of which waits for another one, which is what
collectives in different orders lead to.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from vkbackend import fork_safety

from ..base.errors import DistributedError

if TYPE_CHECKING:
    from .shared_pages import ControlPages

_SPINS = 100
"""Looks at the conditions in a row before the processor is left to others."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3
_CHECK_PAUSE = 400e-6
"""Seconds of a pause; from the last on, other processes are looked at too."""

_PAUSE_SHARE = 0.05
"""Pause by what was waited until then: by so much a wait may last longer."""


class Condition(Protocol):
    """What an operation waits for."""

    def holds(self) -> bool:
        """Return whether the operation can go on."""

    def counters(self) -> Iterable[tuple[int, int]] | None:
        """Return counters and least values of which one is missing; None if unknown."""

    def ranks(self) -> Iterable[int]:
        """Return the ranks, in the world, that have to do something."""


Steps = Generator[Condition, None, Any]


class Reached:
    """The condition that counters of several processes have reached a value."""

    __slots__ = ("_control", "_counters", "_least")

    def __init__(
        self, control: ControlPages, counters: Iterable[int], least: int
    ) -> None:
        self._control, self._counters, self._least = control, counters, least

    def holds(self) -> bool:
        """Return whether all have."""
        words, least = self._control.words, self._least
        return all([words[each] >= least for each in self._counters])

    def counters(self) -> list[tuple[int, int]]:
        """Return those that have not."""
        words, least = self._control.words, self._least
        return [(each, least) for each in self._counters if words[each] < least]

    def ranks(self) -> list[int]:
        """Return the ranks of those that have not."""
        return [self._control.owner(each) for each, _ in self.counters()]


class Ready:
    """The condition, which holds, that a device will have made what is waited for.

    An operation yields it when all copies have been submitted that its caller needs:
    what the caller submits next waits for them on the device. The operation goes on
    with whatever is waited for later.
    """

    def holds(self) -> bool:
        """Return True."""
        return True

    def counters(self) -> Iterable[tuple[int, int]]:
        """Return none: it holds."""
        return ()

    def ranks(self) -> Iterable[int]:
        """Return none: it holds."""
        return ()


READY = Ready()


class AnyOf:
    """The condition that one of several holds."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._conditions = tuple(conditions)

    def holds(self) -> bool:
        """Return whether one does."""
        return any([each.holds() for each in self._conditions])

    def counters(self) -> list[tuple[int, int]] | None:
        """Return those of all."""
        found: list[tuple[int, int]] = []
        for each in self._conditions:
            some = each.counters()
            if some is None:
                return None
            found += some
        return found

    def ranks(self) -> list[int]:
        """Return those that all of them wait for; one that runs may suffice."""
        return [rank for each in self._conditions for rank in each.ranks()][:1]


class Task:
    """An operation that was started.

    Attributes
    ----------
    done : bool
        Whether it has ended; `error` is set then, or `result`.
    ready : bool
        Whether its caller may go on; see `Ready`.
    what : str
        What it is, for messages.
    """

    def __init__(self, owner: Owner, steps: Steps, what: str) -> None:
        self.owner, self.steps, self.what = owner, steps, what
        self.condition: Condition | None = None
        self.done = self.ready = False
        self.error: BaseException | None = None
        self.result: Any = None

    # A condition itself: another operation may wait for its end.

    def holds(self) -> bool:
        """Return whether it has ended."""
        return self.done

    def counters(self) -> Iterable[tuple[int, int]] | None:
        """Return none: what it waits for counts itself."""
        return ()

    def ranks(self) -> Iterable[int]:
        """Return none: what it waits for counts itself."""
        return ()

    def advance(self) -> bool:
        """Go on as far as the conditions allow; return whether it went on at all."""
        moved = False
        while not self.done and (self.condition is None or self.condition.holds()):
            moved = True
            try:
                self.condition = self.steps.send(None)
                self.ready = self.ready or self.condition is READY
            except StopIteration as stop:
                self.result, self.done = stop.value, True
            except Exception as error:
                self.fail(error)
            except BaseException as error:
                self.fail(error)
                raise
        return moved

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if not self.done:
            self.error, self.done = error, True
            self.steps.close()
            self.owner.give_up(self, error)


class Begun:
    """The condition that an operation is ready or has ended, as another one waits for.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def holds(self) -> bool:
        """Return whether it is."""
        return self._task.ready or self._task.done

    def counters(self) -> Iterable[tuple[int, int]] | None:
        """Return none: what it waits for counts itself."""
        return ()

    def ranks(self) -> Iterable[int]:
        """Return none: what it waits for counts itself."""
        return ()


class Owner(Protocol):
    """What operations belong to: a group's transport."""

    def give_up(self, task: Task, error: BaseException) -> None:
        """Say that an operation has failed, after which no other can be trusted."""

    def surrendered(self, ranks: Iterable[int]) -> str:
        """Return the failure of a process that has given up the group; or nothing."""


class Progress:
    """The operations of this process.

    Parameters
    ----------
    rank : int
        Of this process, in the world.
    control : ControlPages
        Of the processes of this machine.
    timeout : float
        Seconds after which a wait ends with an error, whatever the others do.
    """

    def __init__(self, rank: int, control: ControlPages, timeout: float) -> None:
        self._rank, self._control, self.timeout = rank, control, timeout
        self._tasks: list[Task] = []
        self._published = False
        self._threads: dict[threading.Thread, None] = {}
        self._lock = threading.RLock()
        fork_safety.renew(self, "_lock", threading.RLock)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Return a block in which no operation goes on, and whether none is there."""
        with self._lock:
            if self._tasks:
                # Such as one that was ready, and whose copies have ended meanwhile.
                self.advance()
            yield not self._tasks

    def spin(self, condition: Condition) -> bool:
        """Return whether a condition holds soon; other operations do not go on."""
        for _ in range(_SPINS):
            if condition.holds():
                return True
            os.sched_yield()
        return condition.holds()

    def start(self, owner: Owner, steps: Steps, what: str) -> Task:
        """Start an operation, and let it go on as far as it can."""
        task = Task(owner, steps, what)
        with self._lock:
            self._tasks.append(task)
            self.advance()
        return task

    def advance(self) -> bool:
        """Let all operations go on; return whether one did."""
        with self._lock:
            moved = [task.advance() for task in list(self._tasks)]
            self._tasks = [task for task in self._tasks if not task.done]
        return True in moved

    def wait(self, task: Task, background: bool = False) -> Any:
        """Return the result of an operation once it has ended, or is ready.

        Parameters
        ----------
        task : Task
        background : bool, default False
            Whether the program goes on meanwhile, and may do what others wait for.

        Raises
        ------
        DistributedError
            If it cannot end.
        """
        if not background:
            self.note_thread()
        try:
            self._wait(task, background)
        except BaseException as error:
            with self._lock:
                task.fail(error)
            raise
        finally:
            self._withdraw()
        if task.error is not None:
            raise task.error
        return task.result

    def note_thread(self) -> None:
        """Note that the calling thread communicates."""
        self._threads[threading.current_thread()] = None

    def finish(self, task: Task) -> None:
        """Wait for the end of an operation that is ready; its error is its owner's."""
        while task.ready and not task.done:
            self.advance()

    def _wait(self, task: Task, background: bool) -> None:
        spins, began = 0, 0.0
        while not (task.done or task.ready):
            if self.advance():
                spins = 0
                self._withdraw()
                continue
            spins += 1
            now = time.monotonic()
            if spins == 1:
                began = now
            if spins < _SPINS:
                os.sched_yield()
                continue
            pause = max(_SHORTEST_PAUSE, _PAUSE_SHARE * (now - began))
            if pause >= _CHECK_PAUSE:
                self._check(task, background)
                if now > began + self.timeout:
                    raise DistributedError(
                        f"{task.what}: {self._waited(task)} after"
                        f" {self.timeout:g} s; pass init() a longer timeout if they"
                        " need it"
                    )
            time.sleep(min(pause, _LONGEST_PAUSE))

    def _waited(self, task: Task) -> str:
        ranks = () if task.condition is None else task.condition.ranks()
        return f"rank {self._rank} still waits for ranks {sorted(set(ranks))}"

    def _withdraw(self) -> None:
        if self._published:
            self._published = False
            self._control.publish(())

    def _check(self, task: Task, background: bool) -> None:
        """End operations that cannot end by themselves."""
        with self._lock:
            for each in list(self._tasks):
                if each.condition is not None and not each.condition.holds():
                    message = self._obstacle(each)
                    if message:
                        each.fail(DistributedError(f"{each.what}: {message}"))
            self._tasks = [each for each in self._tasks if not each.done]
            if task.done or background or self._has_other_threads():
                return
            if not self._published:
                self._control.publish(self._conditions(), task.what)
                self._published = True
                return
        others = self._circle()
        if others:
            raise DistributedError(f"{task.what}: {others}")

    def _has_other_threads(self) -> bool:
        """Return whether other threads of the program communicate, or have done so."""
        for each in list(self._threads):
            if not each.is_alive():
                del self._threads[each]
        return len(self._threads) > 1

    def _obstacle(self, task: Task) -> str:
        """Return what another process did that keeps a task from ending; or nothing."""
        assert task.condition is not None
        for rank in task.condition.ranks():
            fate = self._control.obituary(rank)
            # It may have done its part before.
            if fate and not task.condition.holds():
                return f"rank {rank} {fate}, and rank {self._rank} waits for it"
        return task.owner.surrendered(task.condition.ranks())

    def _conditions(self) -> list[tuple[int, int]] | None:
        found: list[tuple[int, int]] = []
        for each in self._tasks:
            some = () if each.condition is None else each.condition.counters()
            if some is None:
                return None
            found += some
        return found

    def _circle(self) -> str:
        """Return which ranks wait for each other, if this is one of them.

        A rank is stuck if none of its conditions holds, and all counters that it waits
        for are those of stuck ranks. Counters grow: what does not hold now did not hold
        before, when all waits that are the same before and after were there together.
        """
        before = self._control.waits()
        words = self._control.words
        self._control.fence()
        stuck = {
            rank: {self._control.owner(counter) for counter, _ in wait.conditions}
            for rank, wait in before.items()
            if wait.conditions
            and all([words[counter] < least for counter, least in wait.conditions])
        }
        after = self._control.waits()
        for rank in list(stuck):
            if rank not in after or after[rank].epoch != before[rank].epoch:
                del stuck[rank]
        while True:
            free = [rank for rank, owners in stuck.items() if not owners <= set(stuck)]
            if not free:
                break
            for rank in free:
                del stuck[rank]
        if self._rank not in stuck:
            return ""
        told = ", ".join(
            f"rank {rank} in {before[rank].text}" for rank in sorted(stuck)
        )
        return (
            f"the ranks wait for each other: {told}; all must ask for the same"
            " collectives in the same order, and each recv needs a send"
        )
