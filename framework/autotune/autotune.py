"""Autotuning of kernels: tuning keys, cached results (verdicts) and settings.

Where an op has several kernels for a node, it lists candidates by name. The *tuning
key* is the op with the class of its shapes; the *verdict* is the cached result: the
best candidate, as measured on this device and driver. Without one the op's own rule
chooses. Verdicts are kept on disk and used by every later process; nothing is measured
unless `autotune` or `VKBACKEND_AUTOTUNE` asks for it. See
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
from ..base.scoped_setting import ScopedSetting, SettingScope
from ..ir.kernel_call import StridedSpec

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
    """Autotune settings of the process.

    Attributes
    ----------
    kept : bool
        Whether verdicts are used.
    enabled : bool
        Whether tuning keys without a verdict are measured.
    budget, spent : float
        Seconds for measuring, and those that were taken of them.
    generation : int
        Generation counter; a change invalidates cached plans.
    """

    def __init__(self) -> None:
        choice = config.AUTOTUNE.choice()
        self.kept = choice != "0"
        self.enabled = choice == "1"
        self.budget = BUDGET
        self.spent = 0.0
        self.generation = 0


class SearchSpace(NamedTuple):
    """Search space of a tuning key.

    Attributes
    ----------
    nodes : sequence of Node
        What one kernel, or one op, computes.
    live_out : set of int
        Their results that reach memory, by `id`.
    own : str
        Name of the default candidate, chosen by the rule.
    names : list of str
        The other candidates.
    """

    nodes: Sequence[Node]
    live_out: set[int]
    own: str
    names: list[str]


class TuningResult(NamedTuple):
    """Tuning result: a key that this process measured, with its verdict."""

    device: str
    tuning_key: str
    verdict: Verdict


_collected = ScopedSetting(None)
_forced = ScopedSetting(None)
_paused = ScopedSetting(False)

measured: list[TuningResult] = []
"""Tuning results of this process, in order."""

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
    begin_generation()


def begin_generation() -> None:
    """Begin a generation: cached plans are invalid, as other kernels may be chosen."""
    settings().generation += 1


def measures(gpu: vkbackend.Device) -> bool:
    """Return whether benchmarks may run on a device now."""
    now = settings()
    return now.enabled and now.spent < now.budget and not _interrupted(gpu)


def _interrupted(gpu: vkbackend.Device) -> bool:
    """Return whether measuring would be part of what somebody records or measures."""
    return bool(
        _paused.top.value
        or gpu.open_profile is not None
        or trace_hooks.listener() is not None
    )


def generation(gpu: vkbackend.Device) -> int:
    """Return the generation: cached plans of another one are invalid.

    While benchmarks have to wait it is negative, so that plans made meanwhile keep no
    tuning key from being measured later.
    """
    now = settings()
    return -1 - now.generation if now.enabled and _interrupted(gpu) else now.generation


def verdicts(info: DeviceInfo) -> Verdicts:
    """Return the verdicts for a device and its driver."""
    version = f"{vkbackend.__version__} {VERSION}"
    key = vkbackend.verdict_file(info), version
    found = _tables.get(key)
    if found is None:
        found = _tables.setdefault(key, Verdicts(info, version))
    return found


def choice(
    info: DeviceInfo, tuning_key: str, search_space: SearchSpace | None = None
) -> str:
    """Return the name of the candidate to use for a tuning key.

    `DEFAULT` where there is no verdict; the key is then added to those collected, with
    its search space, if that is not a single node.
    """
    forced: tuple[str, str] | None = _forced.top.value
    if forced is not None and forced[0] == tuning_key:
        return forced[1]
    if not settings().kept:
        return DEFAULT
    verdict = verdicts(info).get(tuning_key)
    if verdict is not None:
        return verdict.choice
    collected = _collected.top.value
    if collected is not None:
        collected[tuning_key] = search_space
    return DEFAULT


def keep_result(info: DeviceInfo, tuning_key: str, verdict: Verdict) -> None:
    """Keep the verdict of a tuning key; this may begin a generation."""
    verdicts(info).keep(tuning_key, verdict)
    measured.append(TuningResult(info.name, tuning_key, verdict))
    if verdict.choice != DEFAULT:
        begin_generation()


def forget(info: DeviceInfo) -> None:
    """Drop the verdicts for a device, and remove their file."""
    verdicts(info).forget()
    begin_generation()


@contextmanager
def collecting_keys() -> Iterator[dict[str, SearchSpace | None]]:
    """Collect the tuning keys of this thread that have no verdict."""
    collected: dict[str, SearchSpace | None] = {}
    with SettingScope(_collected, collected):
        yield collected


def forced_candidate(tuning_key: str, name: str) -> SettingScope:
    """Force a candidate for one tuning key, in this thread, within the block."""
    return SettingScope(_forced, (tuning_key, name))


def paused() -> SettingScope:
    """Measure nothing in this thread within the block; verdicts are used."""
    return SettingScope(_paused, True)


def tuning_key_of(
    name: str, input_specs: Mapping[str, StridedSpec], params: Mapping[str, object]
) -> str:
    """Return the tuning key of a node: its op, arguments and class of shapes.

    Sizes are rounded to powers of two and carry what divides them; numbers with a
    fraction, which scale results, do not matter.

    Parameters
    ----------
    name : str
        The op.
    input_specs : mapping of str to StridedSpec
        Its inputs.
    params : mapping of str to object
        Its static arguments.
    """
    words = [name, *(f"{key}={_class(x)}" for key, x in input_specs.items())]
    words += [
        f"{key}={value!r}".replace(" ", "")
        for key, value in params.items()
        if key not in _INDIFFERENT and not isinstance(value, float)
    ]
    return " ".join(words)


def _class(x: StridedSpec) -> str:
    """Return the class of an input: dtype, sizes, and strides if not contiguous."""
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
