"""Test tiers, the device fixture, and checks after each test.

A test needs no device (`null`) unless it uses the fixture `device` or has the marker
`device`; `gpu` needs real hardware, and `core` is what every driver must pass.
`VKBACKEND_DEVICE` chooses the device; the header of the report names it.
"""

import functools
import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

# Before NumPy and PyTorch are loaded: the workers of pytest-xdist take all cores, and
# threads of small oracle products would only wait for one another. Workers inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

import vkbackend
import vkbackend.framework as fw
import vkbackend.framework.models
import vkbackend.framework.nn.layers  # with these, all ops are declared
from tests.gate_cases import ParametrizedCase, further, left_out
from vkbackend.config import CACHE
from vkbackend.driver import instance
from vkbackend.framework.base.device import MAX_PENDING, GpuDevice, opened_devices
from vkbackend.shader import compiler

TIERS = ("null", "device", "gpu")
# It uses no optional feature, so all of its tests are for every driver.
DEVICE_LAYER = Path(__file__).parent / "vkbackend"

# The same examples in each run; a slow machine is no failure.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

LONG_TESTS = frozenset(
    (Path(__file__).parent / "data" / "long_tests.txt").read_text().splitlines()
)
"""Tests whose kernels a software driver compiles for long, 0.2 s and more a case.

The gate runs one case of each; of what is there with its case, none.
"""

SCRATCH_CACHE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's caches out of it; workers inherit the folder."""
    if not CACHE.read():
        folder = tempfile.TemporaryDirectory(prefix="vkbackend-cache-")
        config.stash[SCRATCH_CACHE] = folder
        os.environ[CACHE.name] = folder.name


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(SCRATCH_CACHE, None)
    if folder is not None:
        folder.cleanup()
        del os.environ[CACHE.name]


def pytest_report_header() -> list[str]:
    return [_device_line(), _compiler_line()]


def _info() -> vkbackend.DeviceInfo | None:
    try:
        return vkbackend.open_device().info
    except vkbackend.NoVulkanError:
        return None


def _device_line() -> str:
    info = _info()
    if info is None:
        return "device: none; tests of the tiers device and gpu will fail"
    line = f"device: {info.name}, driver {info.driver_name} {info.driver_info}".rstrip()
    if info.kind == "software":
        line += "; software, so tests of the tier gpu are deselected"
    return line


def _compiler_line() -> str:
    try:
        found = compiler.compiler()
    except vkbackend.NoCompilerError as error:
        return f"compiler: {error}"
    return f"compiler: {found.name} {found.version}"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    markers = [_give_tier(item) for item in items]
    _leave_to_the_wide_tier(items, markers)
    if not any("gpu" in names for names in markers):
        return
    info = _info()
    if info is not None and info.kind == "software":
        of_gpu = ["gpu" in names for names in markers]
        dropped = [item for item, drops in zip(items, of_gpu, strict=True) if drops]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [
            item for item, drops in zip(items, of_gpu, strict=True) if not drops
        ]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector the tests themselves: a million objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@functools.cache
def _is_of_device_layer(path: Path) -> bool:
    return path.is_relative_to(DEVICE_LAYER)


def _give_tier(item: pytest.Item) -> frozenset[str]:
    """Give a test the markers that follow from others, and return the names of all."""
    names = {marker.name for marker in item.iter_markers()}
    more = []
    uses_device = "device" in getattr(item, "fixturenames", ())
    if uses_device or "core" in names:
        more.append("device")
    if names.isdisjoint(TIERS) and not more:
        more.append("null")
    if _is_of_device_layer(item.path) and "device" in (*names, *more):
        more.append("core")
    for name in more:
        item.add_marker(name)
    found = frozenset((*names, *more))
    if isinstance(item, pytest.Function) and not (uses_device or "null" in found):
        item.fixturenames = ["device", *item.fixturenames]
    return found


def _leave_to_the_wide_tier(
    items: Sequence[pytest.Item], markers: Sequence[frozenset[str]]
) -> None:
    """Mark what cases of parametrized tests the gate leaves out, and further ones."""
    tests: dict[object, list[tuple[pytest.Function, ParametrizedCase]]] = {}
    for item, names in zip(items, markers, strict=True):
        if "device" in names and item.nodeid in LONG_TESTS:
            item.add_marker("long")
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            if "wide" not in names:
                spec = item.callspec
                case = ParametrizedCase(spec.params, spec.indices, names)
                tests.setdefault((item.parent, item.originalname), []).append(
                    (item, case)
                )
    for some in tests.values():
        sampled = some[0][0].get_closest_marker("sampled")
        cases = [case for _, case in some]
        left = left_out(cases, *(sampled.args if sampled else ()))
        for number in left:
            some[number][0].add_marker("wide")
        long = some[0][0].nodeid.partition("[")[0] in LONG_TESTS
        for number in further(cases, left):
            some[number][0].add_marker("further")
            if long:
                some[number][0].add_marker("long")


LAYERS_OWN = "UNASSIGNED-VkSemaphore-state-timeout"
"""A message of the validation layer on itself: "This is most likely a validation bug".

Debian's (1.3.239) waits in vain for its own account of a timeline semaphore where one
thread signals from the host what another waits for.
"""

SURROUNDINGS = pytest.StashKey[tuple[list[str], str]]()


# Hooks, as fixtures with requests would be a third of what pytest takes for a test, of
# which there are 24,000.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Skip what cannot run here; remember where the process is."""
    _skip_without_int64(item)
    _skip_without_oracle(item)
    item.stash[SURROUNDINGS] = [*sys.path], os.getcwd()
    instance.clear_messages()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """See that a test leaves the process where it was, and no validation message."""
    returned = yield
    if nextitem is None or nextitem.path != item.path:
        # What a file of tests leaves stays, as modules, plans and reports do. Looked
        # through again by each collection, it took up to a second of each test that
        # asks for one.
        gc.collect()
        gc.freeze()
    said = [each for each in instance.messages() if LAYERS_OWN not in str(each)]
    instance.clear_messages()
    if said:
        pytest.fail("validation:\n" + "\n".join(said), pytrace=False)
    if SURROUNDINGS in item.stash:
        assert ([*sys.path], os.getcwd()) == item.stash[SURROUNDINGS]
    return returned


def _skip_without_int64(item: pytest.Item) -> None:
    """Skip where the device has no 64-bit integers, which calls refuse by name."""
    if item.get_closest_marker("int64") and item.get_closest_marker("device"):
        info = _info()
        if info is not None and not info.shader_int64:
            pytest.skip("the device has no 64-bit integers")


def _skip_without_oracle(item: pytest.Item) -> None:
    """Skip where a package is missing, or is older than what is compared with it."""
    if item.get_closest_marker("torch213"):
        pytest.importorskip("torch", minversion="2.13")
    if item.get_closest_marker("slangpy") and not find_spec("slangpy"):
        pytest.skip("there is no slangpy package")


@pytest.fixture
def unchecked_indices() -> Iterator[None]:
    """Switch index checks off."""
    fw.set_index_checks(False)
    yield
    fw.set_index_checks(True)


@pytest.fixture(scope="session")
def device() -> Iterator[vkbackend.Device]:
    """Return the device under test; without one, its tests fail."""
    opened = vkbackend.open_device()
    yield opened
    opened.close()
    assert instance.messages() == (), "something outlived the device"


@pytest.fixture
def gpu(request: pytest.FixtureRequest, device: vkbackend.Device) -> GpuDevice:
    """Return the Vulkan device under test with nothing pending."""
    # Without it, a test that asks by `request` would run all of its cases in the gate.
    assert request.node.get_closest_marker("device"), "it needs the marker device"
    # By name, which says nothing about software devices.
    found = fw.device(device.name)
    assert isinstance(found, GpuDevice)
    fw.eval()
    return found


@pytest.fixture
def long_graphs(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no device begin before the lazy graph is full."""
    monkeypatch.setattr(gpu, "first_submitted", MAX_PENDING)
    monkeypatch.setattr(gpu, "max_pending", MAX_PENDING)


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let no kernel that is planned under a patch be one of other plans, nor before.

    What was lowered before serves again afterwards: most tests compile little of it.
    """
    caches = [
        (opened.plan_cache, opened.plan_cache.lowering) for opened in opened_devices()
    ]
    _forget_lowered()
    yield monkeypatch
    _forget_lowered()
    for cache, lowering in caches:
        cache.lowering = lowering


def _forget_lowered() -> None:
    for opened in opened_devices():
        opened.plan_cache.lowering = None


@pytest.fixture
def _no_collector(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free the garbage of earlier tests, and collect none during this one."""
    gc.collect()
    if request.node.get_closest_marker("device"):
        opened: vkbackend.Device = request.getfixturevalue("device")
        opened.synchronize()
    gc.disable()
    yield
    gc.enable()
