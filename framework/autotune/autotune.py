"""Autotuning of kernels: tuning keys, cached results and settings.

Where an op has several kernels for a node, it lists candidates by name. The *tuning
key* is the op with the class of its shapes; the *cached result* (`Verdict`) is the best
candidate, as measured on this device and driver. Without one the op's heuristic
chooses. Cached results are stored on disk and used by every later process; nothing is
measured unless `autotune` or `VKBACKEND_AUTOTUNE` enables it. See
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
from ..base.device import begin_generation
from ..base.scoped_setting import ScopedSetting, SettingScope
from ..ir.kernel_call import StridedSpec

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..base.device import GpuDevice
    from ..ir.lazy_graph import Node

VERSION = 3
"""Version of the candidate names' meanings; older results are ignored."""

DEFAULT = "default"
"""Name of the heuristic's choice."""

BUDGET = 60.0
"""Default tuning budget of a process, in seconds."""

_EXACT = 16
"""Largest size with a class of its own; larger ones are rounded."""

_DIVISIBLE = 64
"""Largest power of two whose divisibility is part of a size's class."""

_INDIFFERENT = ("tensors", "scale")
"""Arguments that are not part of a tuning key, besides fractions."""

_VECTOR = 16
"""Bytes of a vectorised load, to which addresses must be aligned."""


class Settings:
    """Autotune settings of the process.

    Attributes
    ----------
    kept : bool
        Whether cached results are used.
    enabled : bool
        Whether tuning keys without a cached result are measured.
    budget, spent : float
        Seconds for measuring, and the seconds spent.
    """

    def __init__(self) -> None:
        choice = config.AUTOTUNE.choice()
        self.kept = choice != "0"
        self.enabled = choice == "1"
        self.budget = BUDGET
        self.spent = 0.0


class SearchSpace(NamedTuple):
    """Search space of a tuning key.

    Attributes
    ----------
    nodes : sequence of Node
        Nodes of one kernel, or one op.
    live_out : set of int
        Their live-out results, by `id`.
    own : str
        Name of the heuristic's choice, the default candidate.
        Name of the default candidate, chosen by the rule.
    names : list of str
        The other candidates.
    """

    nodes: Sequence[Node]
    live_out: set[int]
    own: str
    names: list[str]


class TuningResult(NamedTuple):
    """Tuning result: a key that this process measured, and the cached result."""

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
    """Return the settings, initialised from the environment."""
    global _settings
    if _settings is None:
        _settings = Settings()
    return _settings


def autotune(
    enabled: bool = True, *, budget: float = BUDGET, kept: bool = True
) -> None:
    """Enable or disable kernel choice by measurement.

    Enabled, an op whose shapes are of a new class benchmarks each candidate kernel on
    scratch data; the best with the same output is used from then on. Cached results are
    stored on disk by device and driver, and every later process uses them whether it
    measures or not.

    Parameters
    ----------
    enabled : bool, default True
        Whether to measure. Without a call, `VKBACKEND_AUTOTUNE` decides; by default
        nothing is measured.
    budget : float, default 60
        Tuning budget of this process in seconds, over all; after it heuristics choose.
    kept : bool, default True
        Whether to use cached results at all. False needs `enabled` to be False.

    Raises
    ------
    TypeError
        If an argument has another type.
    ValueError
        If the budget is negative or no number, or measuring is enabled without using
        cached results.

    Notes
    -----
    Another kernel may sum in another order, so results may differ in the last bits from
    those of the heuristic. With equal cached results they are the same in each run.
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


def measures(gpu: vkbackend.Device) -> bool:
    """Return whether benchmarks may run on a device now."""
    now = settings()
    return now.enabled and now.spent < now.budget and not _interrupted(gpu)


def is_settled() -> bool:
    """Return whether a device's generation alone decides which kernels are chosen.

    Not where keys without a cached result are to be collected, nor where a benchmark
    forces a candidate.
    """
    scopes = _forced.top.value, _collected.top.value
    return not settings().enabled and scopes == (None, None)


def _interrupted(gpu: vkbackend.Device) -> bool:
    """Return whether a benchmark would disturb a recording or another measurement."""
    return bool(
        _paused.top.value
        or gpu.open_profile is not None
        or trace_hooks.listener() is not None
    )


def generation(device: GpuDevice) -> int:
    """Return the generation of a device: cached plans of another one are invalid.

    While benchmarks have to wait it is negative, so that plans made meanwhile do not
    keep a tuning key from being measured later.
    """
    now = _settings or settings()
    waits = now.enabled and _interrupted(device.gpu)
    return -device.generation if waits else device.generation


def verdicts(info: DeviceInfo) -> Verdicts:
    """Return the cached results for a device and its driver."""
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

    `DEFAULT` without a cached result; the key is then collected, together with its
    search space if that is not a single node.
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
    """Cache the result of a tuning key; this may begin a generation."""
    verdicts(info).keep(tuning_key, verdict)
    measured.append(TuningResult(info.name, tuning_key, verdict))
    if verdict.choice != DEFAULT:
        begin_generation()


def forget(info: DeviceInfo) -> None:
    """Drop the cached results for a device, and remove their file."""
    verdicts(info).forget()
    begin_generation()


@contextmanager
def collecting_keys() -> Iterator[dict[str, SearchSpace | None]]:
    """Collect the tuning keys of this thread without a cached result."""
    collected: dict[str, SearchSpace | None] = {}
    with SettingScope(_collected, collected):
        yield collected


def forced_candidate(tuning_key: str, name: str) -> SettingScope:
    """Force a candidate for one tuning key, in this thread, within the block."""
    return SettingScope(_forced, (tuning_key, name))


def paused() -> SettingScope:
    """Measure nothing in this thread within the block; use cached results."""
    return SettingScope(_paused, True)


def tuning_key_of(
    name: str, input_specs: Mapping[str, StridedSpec], params: Mapping[str, object]
) -> str:
    """Return the tuning key of a node: its op, arguments and class of shapes.

    Sizes are rounded to powers of two, with their divisibility; numbers with a
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
    """Return 0 or 1 as they are; other strides only as vector-aligned or not."""
    if step in (0, 1):
        return str(step)
    return "v" if step % vector == 0 else "s"
