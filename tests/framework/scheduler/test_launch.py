"""Dispatches made of drafts: where barriers go, and what shares memory."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler.launch import (
    MAX_SHARED_SIZE,
    Launch,
    execution_plan,
    last_host_steps,
    persistent_scratch,
)
from vkbackend.framework.scheduler.plan import live_plans

COPY = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430) buffer Words { uint at[]; };
layout(push_constant) uniform Push { Words x; Words y; };
void main() { y.at[0] = x.at[0]; }
"""


def launch(
    gpu: GpuDevice,
    reads: list[int],
    writes: list[int],
    size: int = 4,
    grid: tuple[int, int, int] = (1, 1, 1),
) -> Launch:
    pipeline = gpu.gpu.pipeline("copy", source=COPY, constants={"LOCAL_X": 1})
    pack, allocate = pipeline.packer(("x", "y")), tuple((each, size) for each in writes)
    return Launch(
        pipeline, grid, pack, (), (), (), tuple(reads), tuple(writes), allocate
    )


def test_barriers_stand_between_waves(gpu: GpuDevice) -> None:
    rows = [launch(gpu, [0], [1]), launch(gpu, [0], [2]), launch(gpu, [2], [3])]
    rows += [launch(gpu, [1], [4]), launch(gpu, [4], [5])]
    found = execution_plan(gpu.gpu, rows, {5})
    assert [barrier for _, barrier in found.steps] == [False, False, True, False, True]
    assert (found.reads, found.writes) == ((0, 2, 1, 4), (1, 2, 3, 4, 5))


def test_launches_change_places_to_share_a_wave(gpu: GpuDevice) -> None:
    """Two chains, one asked for after the other, run side by side."""
    first = [launch(gpu, [k], [k + 1]) for k in range(3)]
    second = [launch(gpu, [k], [k + 1]) for k in range(10, 13)]
    last = launch(gpu, [3, 13], [20])
    found = execution_plan(gpu.gpu, [*first, *second, last], {20})
    barriers = [barrier for _, barrier in found.steps]
    assert barriers == [False, False, True, False, True, False, True]
    order = [(launch.reads, launch.writes) for launch, _ in found.steps]
    assert order == [
        ((0,), (1,)), ((10,), (11,)), ((1,), (2,)), ((11,), (12,)),
        ((2,), (3,)), ((12,), (13,)), ((3, 13), (20,)),
    ]  # fmt: skip


def test_small_values_share_memory_and_kept_ones_do_not(gpu: GpuDevice) -> None:
    rows = [launch(gpu, [0], [1], 5), launch(gpu, [0], [2], 300)]
    rows += [launch(gpu, [1], [3], MAX_SHARED_SIZE + 1), launch(gpu, [2], [4])]
    found = execution_plan(gpu.gpu, rows, {4})
    assert found.memory == ((3, 4), (MAX_SHARED_SIZE + 1, 4))
    assert found.block == ((1, 512), (2, 0))
    assert found.block_size == 256 + 512


def test_values_whose_lives_do_not_meet_share_bytes(gpu: GpuDevice) -> None:
    rows = [launch(gpu, [k], [k + 1], 1000) for k in range(6)]
    found = execution_plan(gpu.gpu, rows, {6})
    assert found.memory == ((6,), (1000,))
    places = dict(found.block)
    assert sorted(places) == [1, 2, 3, 4, 5]
    assert found.block_size == 2 * 1024
    for k in range(1, 5):
        assert places[k] != places[k + 1]


def test_a_value_lives_as_long_as_what_lies_in_its_place(gpu: GpuDevice) -> None:
    rows = [launch(gpu, [0], [1]), launch(gpu, [1], [2]), launch(gpu, [9], [3])]
    rows[1] = rows[1]._replace(in_place=((1, 2),))
    rows += [launch(gpu, [2, 3], [4]), launch(gpu, [2, 4], [5])]
    found = execution_plan(gpu.gpu, rows, {5})
    assert found.aliases == ((2, 1),)
    places = dict(found.block)
    assert 2 not in places
    # Slot 2 is in use up to the end, and so is the memory of slot 1.
    assert len({places[1], places[3], places[4]}) == 3


def test_only_so_much_is_shared(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbackend.framework.scheduler.launch.MAX_SHARED_BYTES", 600)
    rows = [launch(gpu, [0], [k], 250) for k in range(1, 4)]
    found = execution_plan(gpu.gpu, rows, set())
    assert [slot for slot, _ in found.block] == [1, 2]
    assert found.memory == ((3,), (250,))


def test_what_has_no_work_is_left_out(gpu: GpuDevice) -> None:
    rows = [launch(gpu, [0], [1], grid=(0, 1, 1)), launch(gpu, [1], [2])]
    found = execution_plan(gpu.gpu, rows, {1, 2})
    assert [each for each, _ in found.steps] == rows[1:]
    assert found.memory[0] == (1, 2)


def test_a_grid_that_does_not_fit_is_refused(gpu: GpuDevice) -> None:
    wide = launch(gpu, [0], [1], grid=(1, 1, 1 << 31))
    with pytest.raises(vkbackend.ArgumentError, match=r"copy.*the grid does not fit"):
        execution_plan(gpu.gpu, [wide], set())


def test_siblings_take_their_own_arguments(gpu: GpuDevice) -> None:
    """Of different sizes, offsets, numbers and broadcasts, at once."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 1, (40, 12)).astype(np.float32)
    x = fw.tensor(base, device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    answers = [x[k : 2 * k + 1] * x[k] + 0.25 * k for k in range(1, 19)]
    fw.eval()
    assert (gpu.gpu.counters - before).dispatches == 1
    assert len(live_plans()[-1].launches[0].buffers) == 1
    for k, answer in enumerate(answers, start=1):
        assert_close(answer, base[k : 2 * k + 1] * base[k] + np.float32(0.25 * k))


@pytest.mark.usefixtures("_no_collector")
def test_a_result_takes_the_memory_of_what_it_replaces(gpu: GpuDevice) -> None:
    xs = [fw.tensor(np.full(n, n, np.float32), device=gpu) for n in (5, 9000, 700)]
    fw.eval()
    before = [x.array.value.buffer for x in xs]
    allocations = gpu.gpu.memory_stats()["total_allocations"]
    for _ in range(3):
        for x in xs:
            x.mul_(2.0).add_(1.0)
        fw.eval()
    assert [x.array.value.buffer for x in xs] == before
    # The list of siblings, and arguments of what is recorded.
    assert gpu.gpu.memory_stats()["total_allocations"] <= allocations + 2
    for x in xs:
        assert_close(x, np.full(x.numel(), 8 * x.numel() + 7, np.float32))


@pytest.mark.parametrize("counts", [(4096,), (64, 100, 1024, 7, 4096)])
def test_an_operand_is_read_before_another_result_takes_its_place(
    counts: tuple[int, ...], gpu: GpuDevice
) -> None:
    """Each kernel first writes what the change in place is made of, alone or not."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        old = [rng.normal(size=count).astype(np.float32) for count in counts]
        grads = [rng.normal(size=count).astype(np.float32) for count in counts]
        xs = [fw.tensor(each, device=gpu) for each in old]
        ys = [fw.tensor(each, device=gpu) for each in grads]
        fw.eval()
        halves = []
        for x, y in zip(xs, ys):
            halves.append(y * 0.5)
            x.sub_(halves[-1])
        fw.eval()
        (launch, *_), aliases = (
            live_plans()[-1].launches,
            live_plans()[-1].execution_plan.aliases,
        )
        assert len(aliases) == len(launch.in_place) // 2 == len(counts)
        for x, half, before, grad in zip(xs, halves, old, grads):
            assert_close(half, grad * np.float32(0.5), exact=True)
            assert_close(x, before - grad * np.float32(0.5), exact=True)


@pytest.mark.usefixtures("_no_collector")
def test_what_earlier_waves_have_read_may_be_taken(gpu: GpuDevice) -> None:
    base = np.arange(1, 4001, dtype=np.float32)
    x = fw.tensor(base, device=gpu)
    fw.eval()
    before = x.array.value.buffer
    for _ in range(2):
        first = x[:1] + x[-1:]
        x.mul_(1.0 / first.cumsum(0).max())
        fw.eval()
    assert x.array.value.buffer is before
    base /= 4001
    assert_close(x, base / (base[0] + base[-1]))


def held_by_a_view(x: fw.Tensor) -> fw.Tensor:
    return x.alias()[1:]


def held_by_the_tape(x: fw.Tensor) -> fw.Tensor:
    return (x * fw.ones_like(x).requires_grad_()) * 1.0


def read_again(x: fw.Tensor) -> fw.Tensor:
    return x * 3.0


def read_elsewhere(x: fw.Tensor) -> fw.Tensor:
    return x[1:] * 3.0


def read_by_a_kernel(x: fw.Tensor) -> fw.Tensor:
    return x.cumsum(0)


def read_in_another_order(x: fw.Tensor) -> fw.Tensor:
    return x + x.flip(0)


def read_narrower(x: fw.Tensor) -> fw.Tensor:
    return x.to(fw.float16)


@pytest.mark.parametrize(
    "use",
    [
        held_by_a_view,
        held_by_the_tape,
        read_again,
        read_elsewhere,
        read_by_a_kernel,
        read_in_another_order,
        read_narrower,
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_what_is_still_read_keeps_its_memory(
    use: Callable[[fw.Tensor], fw.Tensor], first: bool, gpu: GpuDevice
) -> None:
    """A change in place next to another use of the old elements, in either order."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 1, 3000).astype(np.float32)
    for _ in range(2):
        x, host = fw.tensor(base, device=gpu), fw.tensor(base)
        fw.eval()
        old = x.alias()
        if first:
            found = use(old)
            del old
            x.exp_()
        else:
            x.exp_()
            found = use(old)
            del old
        fw.eval()
        assert_close(found, use(host).detach().numpy())
        assert_close(x, np.exp(base))


def test_siblings_that_share_an_operand_leave_it(gpu: GpuDevice) -> None:
    base = np.arange(2000, dtype=np.float32)
    for _ in range(2):
        x = fw.tensor(base, device=gpu)
        fw.eval()
        a, b = x * 2.0, x * 3.0
        del x
        fw.eval()
        assert_close(a, base * 2)
        assert_close(b, base * 3)


@pytest.mark.core
def test_lasting_memory_begins_as_zeros(gpu: GpuDevice) -> None:
    dirty = gpu.gpu.allocate(64)
    gpu.gpu.upload(np.full(16, 7, np.uint32), dirty)
    del dirty
    for size in (4, 64, 1000):
        assert gpu.gpu.read(persistent_scratch(gpu.gpu, size), 0, size) == bytes(size)


@pytest.mark.null
def test_calls_know_the_last_host_step_that_they_wait_for() -> None:
    calls = [
        SimpleNamespace(reads=reads, writes=writes)
        for reads, writes in (
            *(((0,), (1,)), ((1,), (2,)), ((2,), (3,)), ((0,), (4,))),
            *(((4,), (5,)), ((3, 5), (6,)), ((3,), (7,))),
        )
    ]
    found = last_host_steps(calls, {2, 5})  # type: ignore[arg-type]
    assert found == [0, 1, 1, 0, 2, 2, 1]
    assert last_host_steps(calls, ()) == [0] * 7  # type: ignore[arg-type]
