"""Devices of tensors: the host, and every Vulkan device."""

from __future__ import annotations

import itertools
import re
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import vkbackend
from vkbackend import config, fork_safety
from vkbackend.errors import NoVulkanError, ReentrantError

from . import index_checks
from .recent_cache import RecentCache
from .scoped_setting import ScopedSetting, SettingScope

if TYPE_CHECKING:
    from ..ir.lazy_graph import Node
    from ..scheduler.lowering_cache import LoweringCache
    from ..scheduler.plan import Plan

MOST_UPLOAD_SIZES = 256
"""Sizes of uploads in a generation of those that are remembered."""

KEPT_PLANS = 256
"""Plans cached per device; the least recently used is evicted first."""


MAX_PENDING = 1024
"""Pending nodes from which the oldest of them are submitted, at the latest."""

FIRST_SUBMITTED = 64
"""Pending nodes from which a device with processors of its own gets the oldest first.

It computes these while the host records others; twice as many are submitted next. With
pieces of 64 nodes throughout, the training step of GPT-2 small in bfloat16 took 42 ms
instead of 52, of a ResNet-18 under "high" 19 instead of 24, but that of an LSTM written
by hand, 2700 nodes in 46 pieces, 58 instead of 33: so they grow (NVIDIA H200, driver
580.159.04, 2026-11-28; growing ones were not timed).
"""


class _DeviceType(type):
    """Class of `Device`: a call finds one of the devices that there are."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Device:
            return _selected(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Device(metaclass=_DeviceType):
    """Device of a tensor's elements; compare devices with `is` or `==`.

    Parameters
    ----------
    selector : str, int, Device or None
        "cpu" is the host. "meta" is for tensors without elements, of which ops give
        shapes and dtypes alone. "gpu" or "vulkan" is the environment variable
        `VKBACKEND_DEVICE`, and without it the best Vulkan device; "gpu:1", or 1, is the
        second best. Any other text is part of a device's name. None is as "gpu", but
        the host, with one warning, where no Vulkan device is usable.
    index : int or None
        Number of the device, where the selector has none.
    type : str or None
        The selector, by PyTorch's name.

    Raises
    ------
    NoVulkanError
        If a device is selected, also by "gpu", and there is none such. "cuda" and the
        like, which are no Vulkan devices, give an object, as default arguments of
        programs name them; whatever is to be on such a device raises.

    Attributes
    ----------
    type : str
        "cpu", "vulkan" or "meta".
    index : int or None
        Number of a Vulkan device, best first; None of the host.
    name : str
        "cpu" for the host, "meta", otherwise the name that the driver reports, with
        the PCI address where several devices have the same.
    is_gpu : bool
        Whether ops run through Vulkan.
    lock : RLock
        Held where the content of tensors must not change.
    generation : int
        Generation of all caches for the device; an entry of another one is invalid.
    anchor : Tensor or None
        Tensor of no elements by which factories name the device to ops.

    Notes
    -----
    The same object for the same selector, until the device is closed or lost; its `str`
    selects it. `with device("gpu"):` makes it the one that factories take by default.

    Examples
    --------
    >>> device("cpu")
    device(type='cpu')
    >>> with device("cpu"):
    ...     fw.ones(2).device.type
    'cpu'
    """

    type = "cpu"
    name = "cpu"
    is_gpu = False
    generation = 0

    def __init__(
        self,
        selector: str | int | Device | None = None,
        index: int | None = None,
        *,
        type: str | None = None,
    ) -> None:
        self.anchor: Any = None
        self.lock = threading.RLock()
        fork_safety.renew(self, "lock", threading.RLock)

    @property
    def index(self) -> int | None:
        """Number of a Vulkan device, best first; None of the host."""
        return None

    @property
    def description(self) -> str:
        """The device and its driver, for people."""
        return self.name

    def synchronize(self) -> None:
        """Wait for all work that was submitted to the device.

        Raises
        ------
        IndexRangeError
            If an index of that work was out of range.
        """

    def __repr__(self) -> str:
        place = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{place})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[str]]:
        return device, (self.name,)

    def __enter__(self) -> Device:
        scope = SettingScope(_default, find_device(self))
        scope.__enter__()
        _entered.scopes = [*getattr(_entered, "scopes", ()), (self, scope)]
        return self

    def __exit__(self, *raised: object) -> None:
        scopes: list[tuple[Device, SettingScope]] = list(_entered.scopes)
        last = max(k for k, (owner, _) in enumerate(scopes) if owner is self)
        _, scope = scopes.pop(last)
        _entered.scopes = scopes
        scope.__exit__(*raised)


class Submission(Protocol):
    """Submission, and its commit or rollback once its fate is known."""

    def settle(self) -> None:
        """Commit or roll back; idempotent, as an interrupt may cut it short."""


class PlanCache(OrderedDict[object, "Plan"]):
    """Cached plans by plan key; clearing it begins a generation.

    Attributes
    ----------
    lowering : (int, LoweringCache) or None
        What its plans have in common, and of which generation.
    """

    lowering: tuple[int, LoweringCache] | None = None

    def clear(self) -> None:
        """Drop the plans, and invalidate all caches that hold them."""
        super().clear()
        begin_generation()


_generations = itertools.count(2, 2)
# Signal handlers, too, may begin one.
_generation_lock = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_generation_lock", threading.RLock)


class GpuDevice(Device):
    """Vulkan device with its lazy graph and plan cache.

    Attributes
    ----------
    gpu : vkbackend.Device
        The device layer's object.
    pending : list of Node
        Nodes of the lazy graph, in order.
    first_submitted, max_pending : int
        Number of them from which the oldest are submitted: first, and next.
    in_flight : Submission or None
        The last submission, as long as it has not been settled.
    running : frame or None
        Frame of the call that submits now; or of one that an interrupt ended.
    reads : int
        Partial reads since the lazy graph was last submitted as a whole.
    left : int
        Nodes, the first of `pending`, that the last read left pending.
    backward_cache : OrderedDict
        Cached backward passes by tape structure; see `autograd.backward_cache`.
    backward_misses : int
        Consecutive misses of the backward cache.
    upload_places : RecentCache of int to tuple of (int,)
        Addresses of the last uploads by their bytes, the newest first.
    """

    type = "vulkan"
    is_gpu = True

    def __init__(self, gpu: vkbackend.Device) -> None:
        super().__init__()
        self.gpu = gpu
        self.name = gpu.name
        self.pending: list[Node] = []
        shared = gpu.info.target.shares_processor
        self.first_submitted = MAX_PENDING if shared else FIRST_SUBMITTED
        self.max_pending = self.first_submitted
        self.in_flight: Submission | None = None
        self.running: FrameType | None = None
        self.reads = 0
        self.left = 0
        self._generations: dict[frozenset[object], int] = {}
        self.generation = next(_generations)
        self._plans = PlanCache()
        self.backward_cache: OrderedDict[object, object] = OrderedDict()
        self.backward_misses = 0
        self.upload_places: RecentCache[int, tuple[tuple[int], ...]]
        self.upload_places = RecentCache(MOST_UPLOAD_SIZES)

    @property
    def plans(self) -> OrderedDict[object, Plan]:
        """Cached plans by plan key; assigning begins a generation."""
        return self._plans

    @plans.setter
    def plans(self, plans: OrderedDict[object, Plan]) -> None:
        self._plans = plans if isinstance(plans, PlanCache) else PlanCache(plans)
        self.begin_generation()

    @property
    def plan_cache(self) -> PlanCache:
        """The plan cache, with what its plans have in common."""
        return self._plans

    @property
    def fusing(self) -> bool:
        """Whether nodes may be fused; fused and unfused are two generations.

        Both last: entries that were cached within `unfused` are valid again within the
        next `unfused`.
        """
        return not self.generation & 1

    @fusing.setter
    def fusing(self, fusing: bool) -> None:
        with _generation_lock:
            self.generation = self.generation & ~1 | (not fusing)

    def synchronize(self) -> None:
        """Wait for all submitted work; see `Device.synchronize`."""
        self.gpu.synchronize()
        self.check_indices()

    def check_indices(self) -> None:
        """Raise the error of an index out of range, if a kernel has recorded one.

        For when the host has waited for a result.

        Raises
        ------
        IndexRangeError
            If there is one; the record is then clear.
        """
        record = self.gpu.status
        if record is not None and record.is_set():
            with self.lock:
                index_checks.raise_recorded(self.gpu, record)

    def begin_generation(self) -> None:
        """Begin a generation: all cache entries for the device are invalid."""
        with _generation_lock:
            self._generations.clear()
            self.generation = next(_generations) | self.generation & 1

    def return_to_generation(
        self, former: frozenset[object], settings: frozenset[object]
    ) -> None:
        """Take the generation that other settings had; a new one the first time.

        Entries that were cached with these settings are valid again.
        """
        with _generation_lock:
            self._generations[former] = self.generation & ~1
            found = self._generations.get(settings)
            if found is None:
                found = self._generations[settings] = next(_generations)
            self.generation = found | self.generation & 1

    @contextmanager
    def fresh_plan_cache(self) -> Iterator[None]:
        """Empty the plan cache inside the block, and restore it afterwards.

        That begins no generation: entries of the other caches stay valid.
        """
        plans, self._plans = self._plans, PlanCache()
        try:
            yield
        finally:
            self._plans = plans

    def begin(self) -> None:
        """Begin a submitting call: the caller, which sets `running` to None at last.

        The lock is held, here and by everyone who submits. It does not keep out signal
        handlers and finalizers of the same thread, which may run between the call's
        reads of the lazy graph and its updates.

        Raises
        ------
        ReentrantError
            Within such a call.
        """
        if self.running is not None and self.within():
            raise ReentrantError(
                f"{self.name}: a submission is asked for within another one of the same"
                " thread, by a signal handler or a finalizer; let it set a flag, and"
                " read or evaluate tensors once it has returned"
            )
        self.running = sys._getframe(1)
        if self.in_flight is not None:
            self.finish()

    def within(self) -> bool:
        """Return whether the caller runs within a call that submits."""
        frame = None if self.running is None else sys._getframe(1)
        while frame is not None and frame is not self.running:
            frame = frame.f_back
        return frame is not None

    def settle(self) -> None:
        """Settle a submission that an interrupt cut short; not within one."""
        if self.in_flight is not None and not self.within():
            self.finish()

    def finish(self) -> None:
        """Commit or roll back the last submission that was made, or tried."""
        if self.in_flight is not None:
            self.in_flight.settle()
            self.in_flight = None

    @property
    def index(self) -> int:
        """Number of the device among `devices`, best first."""
        found = [each is self.gpu.physical for each in vkbackend.devices()]
        return found.index(True) if True in found else 0

    @property
    def description(self) -> str:
        """The device and its driver, for people."""
        info = self.gpu.info
        return f"{self.name} ({info.driver_name} {info.driver_info})"


class _Host(Device):
    """The host."""


class _IndexedHost(Device):
    """The host as `device("cpu", 0)`: as in PyTorch another object, for the same."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index

    @property
    def index(self) -> int:
        """The number given."""
        return self._index

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[str]]:
        return device, (str(self),)


class _MetaDevice(Device):
    """Device of tensors that have a shape, strides and a dtype, but no elements."""

    type = "meta"
    name = "meta"


class _ForeignDevice(Device):
    """Device of another library, which can be named and compared, but not used."""

    def __init__(self, type: str, index: int | None) -> None:
        super().__init__()
        self.type = self.name = type
        self._index = index

    @property
    def index(self) -> int | None:
        """The number given."""
        return self._index

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[str]]:
        return device, (str(self),)

    def synchronize(self) -> None:
        """Raise: nothing can be on the device."""
        raise self.refusal()

    def refusal(self) -> NoVulkanError:
        """Return what to raise where the device is to be used."""
        return NoVulkanError(
            f'device: {str(self)!r} is no device of this library; use "gpu" for the'
            ' best Vulkan device, or "cpu"'
        )


CPU: Device = _Host()
META: Device = _MetaDevice()
_indexed: dict[int, Device] = {}
_foreign: dict[tuple[str, int | None], Device] = {}

_default = ScopedSetting(None)
_entered = threading.local()


class DefaultDevice:
    """The device of factories outside of all blocks; see `defaults`."""

    device: Device = CPU


def default_device() -> Device:
    """Return the device of factories that are given none."""
    found: Device | None = _default.top.value
    return DefaultDevice.device if found is None else found


_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_opened: dict[vkbackend.Device, GpuDevice] = {}
_keepers: list[Callable[[], object]] = []
_loaders: list[Callable[[], object]] = []
_said: set[str] = set()


_META = re.compile(r"meta(?::\d+)?")
_OURS = re.compile(r"(cpu|gpu|vulkan)(?::(\d+))?")
_FOREIGN = re.compile(
    r"(cuda|mps|xpu|xla|hip|rocm|hpu|ipu|npu|mtia|privateuseone)(?::(\d+))?"
)


def _selected(
    selector: str | int | Device | None = None,
    index: int | None = None,
    *,
    type: str | None = None,
) -> Device:
    """Return the device of a selector; see `Device`."""
    wanted = selector if type is None else type
    if isinstance(wanted, Device) and index is None:
        return wanted
    if isinstance(wanted, str):
        if _META.fullmatch(wanted) is not None:
            return META
        foreign = _FOREIGN.fullmatch(wanted)
        if foreign is not None:
            number = int(foreign[2]) if foreign[2] and index is None else index
            key = foreign[1], number
            return _foreign.setdefault(key, _ForeignDevice(*key))
        wanted, index = _parsed(wanted, index)
        if wanted == "cpu" and index is not None:
            return _indexed.setdefault(index, _IndexedHost(index))
        if wanted == "gpu" and index is not None:
            wanted, index = index, None
    if index is not None:
        raise TypeError(
            f"device: index {index!r} is given with {wanted!r}, which takes none; use"
            ' "cpu" or "gpu" with an index'
        )
    return _found(wanted)


def find_device(selector: str | int | Device | None) -> Device:
    """Return the device that a selector means, as tensors have it; see `Device`."""
    if not isinstance(selector, Device):
        if selector is not None and not isinstance(selector, str | int):
            kind = type(selector).__name__
            raise TypeError(
                f"device: a {kind} is given; it must be a device or its name"
            )
        selector = Device(selector)
    if isinstance(selector, _ForeignDevice):
        raise selector.refusal()
    return CPU if isinstance(selector, _IndexedHost) else selector


def _parsed(text: str, index: int | None) -> tuple[str, int | None]:
    """Return a selector without its number, and the number."""
    ours = _OURS.fullmatch(text)
    if ours is None:
        return text, index
    kind = "cpu" if ours[1] == "cpu" else "gpu"
    return kind, int(ours[2]) if ours[2] and index is None else index


def _found(selector: str | int | Device | None) -> Device:
    wanted = config.DEVICE.read() if selector in (None, "gpu") else selector
    if isinstance(wanted, Device):
        return wanted
    if wanted == "cpu":
        return CPU
    if wanted not in (None, ""):
        return _wrap(vkbackend.open_device(wanted))
    try:
        gpu = vkbackend.open_device()
    except NoVulkanError as error:
        if selector == "gpu":
            raise
        _say_once(f"no Vulkan device is usable, so the host computes: {error}")
        return CPU
    if gpu.info.kind == "software":
        _say_once(f"{gpu.name} is a software device: no GPU driver was found")
    return _wrap(gpu)


device = Device
"""The class by PyTorch's name."""


def devices() -> list[str]:
    """Return the names of the Vulkan devices, best first, then "cpu".

    No two are equal: two cards of one model have their PCI addresses in the names.
    """
    try:
        found = [physical.name for physical in vkbackend.devices()]
    except NoVulkanError:
        found = []
    return [*found, "cpu"]


def opened_devices() -> list[GpuDevice]:
    """Return the Vulkan devices in use."""
    with _lock:
        _forget_unusable()
        return list(_opened.values())


def begin_generation() -> None:
    """Begin a generation on all devices in use; see `GpuDevice.begin_generation`."""
    for device in list(_opened.values()):
        device.begin_generation()


_settings: dict[str, object] = {}


def change_setting(name: str, before: object, now: object) -> None:
    """Take the generation of a setting's new value on all devices in use.

    When the setting is changed back, entries that were cached before are valid again:
    a step that chooses a precision for itself is planned once.

    Parameters
    ----------
    name : str
        The setting, on whose value cached entries depend.
    before, now : object
        Its values; hashable.
    """
    former = frozenset({**_settings, name: before}.items())
    _settings[name] = now
    settings = frozenset(_settings.items())
    for device in list(_opened.values()):
        device.return_to_generation(former, settings)


def _wrap(gpu: vkbackend.Device) -> GpuDevice:
    if not _opened:
        for load in _loaders:
            load()
    with _lock:
        _forget_unusable()
        found = _opened.get(gpu)
        if found is None:
            found = GpuDevice(gpu)
            if gpu.usable:
                _opened[gpu] = found
                gpu.at_close.append(_forget_unusable)
                gpu.at_info_change.append(begin_generation)
        return found


def _forget_unusable() -> None:
    """Drop devices that are closed or lost, with their caches."""
    gone = [gpu for gpu in list(_opened) if not gpu.usable]
    if gone:
        for forget in _keepers:
            forget()
    # Last, as a step that an interrupt skips is done another time.
    for gpu in gone:
        _opened.pop(gpu, None)


def set_index_checks(mode: bool) -> None:
    """Set whether devices check indices; by default they do.

    An index out of range is found by the kernel that reads it, and raised by the first
    call that then waits for a result, of this work or other: a read, `item`, `tolist`
    or `synchronize`. At the latest it is the one that reads what was indexed.

    Parameters
    ----------
    mode : bool
        False switches the checks off, for all devices and threads: such an index then
        reads NaN, or 0 for dtypes without NaN, and writes nothing.

    Notes
    -----
    PyTorch has no such function. Functions under `jit` are checked as well: the error
    is raised when a result is read. The host device always checks. A change drops the
    plans of all devices, which are built again when they are needed.
    """
    if bool(mode) is not index_checks.is_index_checks_enabled():
        index_checks.enable(bool(mode))
        for opened in list(_opened.values()):
            opened.plans.clear()


def on_device_removed(forget: Callable[[], object]) -> None:
    """Register a callback for after a device has been closed, or lost.

    It is to clear caches with device objects, which would keep that device alive, with
    its plans and kernels.
    """
    _keepers.append(forget)


def on_first_device(load: Callable[[], object]) -> None:
    """Register a callback for before the first Vulkan device comes into use.

    It is to import what such devices alone need, so that programs on the host start
    without. No lock is held, and after the first device has been closed it may be
    called another time.
    """
    _loaders.append(load)


def _say_once(message: str) -> None:
    with _lock:
        known = message in _said
        _said.add(message)
    if not known:
        warnings.warn(f"vkbackend: {message}", stacklevel=3)
