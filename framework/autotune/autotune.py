"""Which of several kernels an operation takes: questions, verdicts and settings.

Where a rule of an op knows more than one way to compute a node, it lists candidates by
name. The *question* is the op with the class of its shapes; the *verdict* names the
best candidate, as measured on this device and driver. Without a verdict the op's own
rule chooses. Verdicts are kept on disk and used by every later process; nothing is
measured unless `autotune` or `VKBACKEND_AUTOTUNE` asks for it. See
`scheduler.kernel_search`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import vkbackend
from vkbackend import Verdict, Verdicts, config

from ..base import trace_hooks
from ..base.scoped_setting import Block, Setting
from ..ir.kernel_call import Placed

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node

VERSION = 3
"""Counts changes of what candidates' names mean; older verdicts are ignored."""

DEFAULT = "default"
"""The choice of the op's own rule."""

BUDGET = 60.0
"""Seconds that a process measures for unless it is told otherwise."""

_EXACT = 16
"""Sizes up to here are a class of their own; larger ones are rounded."""

_DIVISIBLE = 64
"""Largest power of two of which it matters whether it divides a size."""

_INDIFFERENT = ("tensors", "scale")
"""Arguments that no choice depends on, beside those that are fractions."""

_VECTOR = 16
"""Bytes that are read at once where addresses are multiples of them."""


class Settings:
    """What is used and what is measured, for the process.

    Attributes
    ----------
    kept : bool
        Whether verdicts are used.
    enabled : bool
        Whether open questions are measured.
    budget, spent : float
        Seconds for measuring, and those that were taken of them.
    era : int
        Grows when schedules made before may choose otherwise than they would now.
    """

    def __init__(self) -> None:
        choice = config.AUTOTUNE.choice()
        self.kept = choice != "0"
        self.enabled = choice == "1"
        self.budget = BUDGET
        self.spent = 0.0
        self.era = 0


class Subject(NamedTuple):
    """What a question is about.

    Attributes
    ----------
    nodes : sequence of Node
        What one kernel, or one op, computes.
    wanted : set of int
        Their results that reach memory, by `id`.
    own : str
        Name of the choice of the rule.
    names : list of str
        The other candidates.
    """

    nodes: Sequence[Node]
    wanted: set[int]
    own: str
    names: list[str]


class Measured(NamedTuple):
    """A question that this process measured, with the verdict."""

    device: str
    question: str
    verdict: Verdict


_asked = Setting(None)
_forced = Setting(None)
_paused = Setting(False)

measured: list[Measured] = []
"""Every question that this process measured, in order."""

_settings: Settings | None = None
_tables: dict[tuple[Path, str], Verdicts] = {}


def settings() -> Settings:
    """Return the settings; those of the environment until something is chosen."""
    global _settings
    if _settings is None:
        _settings = Settings()
    return _settings


def autotune(
    enabled: bool = True, *, budget: float = BUDGET, kept: bool = True
) -> None:
    """Choose whether kernels are chosen by measurement.

    Enabled, an operation whose shapes are of a class not met before runs each candidate
    for its kernel a few times, on scratch data; the best that gives the same result is
    used from then on. Verdicts are kept on disk by device and driver, and every later
    process uses them whether it measures or not.

    Parameters
    ----------
    enabled : bool, default True
        Whether to measure. Without a call, `VKBACKEND_AUTOTUNE` decides; by default
        nothing is measured.
    budget : float, default 60
        Seconds that this process may measure for, over all; after them the library
        chooses by its rules.
    kept : bool, default True
        Whether to use verdicts at all. False needs `enabled` to be False.

    Raises
    ------
    TypeError
        If an argument has another type.
    ValueError
        If the budget is negative or no number, or something is to be measured and not
        used.

    Notes
    -----
    Another kernel may sum in another order, so results may differ in the last bits from
    those without the verdict. With the same verdicts they are the same in each run.
    """
    for name, value in (("enabled", enabled), ("kept", kept)):
        if not isinstance(value, bool):
            raise TypeError(f"autotune: {name} is {value!r}; it must be True or False")
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"autotune: budget is {budget!r}; it must be a number")
    if not budget >= 0:
        raise ValueError(f"autotune: budget is {budget}; it must be at least 0 seconds")
    if enabled and not kept:
        raise ValueError(
            "autotune: enabled is True, kept is False; what is measured is kept"
        )
    now = settings()
    now.kept, now.enabled, now.budget = kept, enabled, float(budget)
    begin_era()


def begin_era() -> None:
    """Note that operations may take other kernels: what is scheduled is made anew."""
    settings().era += 1


def measures(gpu: vkbackend.Device) -> bool:
    """Return whether open questions may be measured on a device now."""
    now = settings()
    return now.enabled and now.spent < now.budget and not _interrupted(gpu)


def _interrupted(gpu: vkbackend.Device) -> bool:
    """Return whether measuring would be part of what somebody records or measures."""
    return bool(
        _paused.top.value
        or gpu.open_profile is not None
        or trace_hooks.listener() is not None
    )


def era(gpu: vkbackend.Device) -> int:
    """Return a number that is another one when schedules must be made anew.

    While measuring has to wait it is negative, so that what is scheduled meanwhile
    keeps no question from being asked later.
    """
    now = settings()
    return -1 - now.era if now.enabled and _interrupted(gpu) else now.era


def verdicts(info: DeviceInfo) -> Verdicts:
    """Return the verdicts for a device and its driver."""
    version = f"{vkbackend.__version__} {VERSION}"
    key = vkbackend.verdict_file(info), version
    found = _tables.get(key)
    if found is None:
        found = _tables.setdefault(key, Verdicts(info, version))
    return found


def choice(info: DeviceInfo, question: str, subject: Subject | None = None) -> str:
    """Return the name of the candidate that a question is answered with.

    `DEFAULT` where there is no verdict; whoever collects questions then hears of it,
    and of what it is about, if that is not a single node.
    """
    forced: tuple[str, str] | None = _forced.top.value
    if forced is not None and forced[0] == question:
        return forced[1]
    if not settings().kept:
        return DEFAULT
    verdict = verdicts(info).get(question)
    if verdict is not None:
        return verdict.choice
    asked = _asked.top.value
    if asked is not None:
        asked[question] = subject
    return DEFAULT


def decide(info: DeviceInfo, question: str, verdict: Verdict) -> None:
    """Keep a verdict; what was scheduled without it is scheduled anew."""
    verdicts(info).keep(question, verdict)
    measured.append(Measured(info.name, question, verdict))
    if verdict.choice != DEFAULT:
        begin_era()


def forget(info: DeviceInfo) -> None:
    """Drop the verdicts for a device, and remove their file."""
    verdicts(info).forget()
    begin_era()


@contextmanager
def asking() -> Iterator[dict[str, Subject | None]]:
    """Collect the questions that this thread asks inside and that have no verdict."""
    asked: dict[str, Subject | None] = {}
    with Block(_asked, asked):
        yield asked


def forcing(question: str, name: str) -> Block:
    """Answer one question with a candidate, in this thread, within the block."""
    return Block(_forced, (question, name))


def paused() -> Block:
    """Measure nothing in this thread within the block; verdicts are used."""
    return Block(_paused, True)


def question_of(
    name: str, placed: Mapping[str, Placed], params: Mapping[str, object]
) -> str:
    """Return what is asked about a node: its op, arguments and class of shapes.

    Sizes are rounded to powers of two and carry what divides them; numbers with a
    fraction, which scale results, do not matter.

    Parameters
    ----------
    name : str
        The op.
    placed : mapping of str to Placed
        Its inputs.
    params : mapping of str to object
        Its static arguments.
    """
    words = [name, *(f"{key}={_class(x)}" for key, x in placed.items())]
    words += [
        f"{key}={value!r}".replace(" ", "")
        for key, value in params.items()
        if key not in _INDIFFERENT and not isinstance(value, float)
    ]
    return " ".join(words)


def _class(x: Placed) -> str:
    """Return the class of an input: dtype, sizes, and how it lies if not in order."""
    text = f"{x.dtype.name}[{','.join(map(_size, x.shape))}]"
    vector = max(1, _VECTOR // x.dtype.itemsize)
    if not x.layout.is_contiguous:
        text += f"({','.join(_stride(step, vector) for step in x.layout.strides)})"
    return text if x.layout.offset % vector == 0 else f"{text}+"


def _size(size: int) -> str:
    if size <= _EXACT:
        return str(size)
    return f"{2 ** round(math.log2(size))}/{math.gcd(size, _DIVISIBLE)}"


def _stride(step: int, vector: int) -> str:
    """Return 0 or 1 as they are; other strides only as whether vectors fit."""
    if step in (0, 1):
        return str(step)
    return "v" if step % vector == 0 else "s"
