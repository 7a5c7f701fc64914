"""Flushing: cached schedules, quiet loops, errors that leave everything usable."""

# Longer than most: a flush is one transaction, whatever ends it.

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from tests.memory_limit import room_for
from vkbackend import Buffer, Counters, OutOfDeviceMemory, ShaderError
from vkbackend.command.dispatch_sequence import SequenceSubmission
from vkbackend.framework.base.device import KEPT_PLANS, MAX_PENDING, GpuDevice
from vkbackend.framework.ir import lazy_graph
from vkbackend.framework.scheduler import plan as planning
from vkbackend.framework.scheduler import scheduler
from vkbackend.framework.scheduler.scheduler import (
    EARLY_SUBMIT_NODES,
    MAX_PARTIAL_READS,
)

pytestmark = pytest.mark.core


class Watch:
    """Counts what happens on a device from call to call."""

    def __init__(self, gpu: GpuDevice) -> None:
        self.gpu = gpu
        self.since()

    def since(self) -> Counters:
        """Return the counts since the last call, after a flush."""
        fw.eval()
        now = self.gpu.gpu.counters.snapshot()
        counted = now - getattr(self, "before", now)
        self.before = now
        return counted


@pytest.fixture
def watch(gpu: GpuDevice) -> Watch:
    return Watch(gpu)


def tensor(gpu: GpuDevice, *shape: int) -> fw.Tensor:
    data = np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(np.float32)
    return fw.tensor(data, device=gpu)


def test_nothing_runs_until_it_is_needed(gpu: GpuDevice, watch: Watch) -> None:
    x = tensor(gpu, 7, 11)
    x.numpy()
    watch.since()
    y = (x * 2 + 1).relu()
    assert gpu.gpu.counters.dispatches == watch.before.dispatches
    assert len(gpu.pending) == 3
    y.numpy()
    counted = watch.since()
    # Where memory is not mapped, a read is a copy that is submitted too.
    assert (counted.dispatches, counted.host_reads) == (1, 1)
    assert counted.submits <= 2
    y.numpy()
    assert watch.since().dispatches == 0


def test_results_that_nobody_holds_are_not_computed(
    gpu: GpuDevice, watch: Watch
) -> None:
    x = tensor(gpu, 7, 11)
    watch.since()
    x.exp()
    unused = x @ x.T
    del unused
    assert watch.since().dispatches == 0


STEPS: dict[str, Callable[[fw.Tensor, fw.Tensor, float], fw.Tensor]] = {
    "element-wise": lambda x, w, lr: (x * w + lr).relu() * lr,
    "product": lambda x, w, lr: (x @ w.T * lr).sum(0),
    "in place": lambda x, w, lr: x.clone().add_(w).mul_(lr).sub_(1),
}


@pytest.mark.parametrize("name", STEPS)
def test_second_iteration_is_quiet(name: str, gpu: GpuDevice, watch: Watch) -> None:
    x, w = tensor(gpu, 7, 11), tensor(gpu, 7, 11)
    plans = []
    for k in range(4):
        STEPS[name](x, w, 0.1 / (k + 1)).numpy()
        plans.append(len(gpu.plans))
        counted = watch.since()
        if k > 0:
            assert (counted.pipeline_builds, counted.shader_compiles) == (0, 0)
        if k > 1:
            assert counted.device_allocations == 0
    assert plans[1:] == plans[:1] * 3


def test_training_step_is_quiet(gpu: GpuDevice, watch: Watch) -> None:
    x, w = tensor(gpu, 16, 11), tensor(gpu, 11, 5).requires_grad_()
    labels = fw.tensor(np.arange(16, dtype=np.int32) % 5, device=gpu)
    losses, plans = [], []
    for k in range(6):
        loss = fw.ops.cross_entropy((x @ w).tanh(), labels)
        w.grad = None
        loss.backward()
        with fw.no_grad():
            w.sub_(w.grad * (1.0 / (k + 1)))
        losses.append(loss.item())
        plans.append(len(gpu.plans))
        counted = watch.since()
        if k >= 2:
            assert counted.pipeline_builds == counted.device_allocations == 0
            assert counted.host_reads == 1
    assert len(set(plans[1:])) == 1
    assert losses == sorted(losses, reverse=True)


def test_numbers_do_not_make_a_schedule(gpu: GpuDevice, watch: Watch) -> None:
    x = tensor(gpu, 37)
    plans = []
    for rate in (0.5, 2.0, -1.0):
        assert_close(x * rate, x.numpy() * np.float32(rate), exact=True)
        plans.append(len(gpu.plans))
        assert watch.since().pipeline_builds == 0 or len(plans) == 1
    assert plans[1:] == plans[:1] * 2


@pytest.mark.parametrize("shapes", [((7, 11), (3, 5), (1013, 9)), ((4, 8), (12, 16))])
def test_sizes_do_not_make_a_kernel(
    shapes: tuple[tuple[int, int], ...], gpu: GpuDevice, watch: Watch
) -> None:
    for k, (rows, columns) in enumerate(shapes):
        x, row = tensor(gpu, rows, columns), tensor(gpu, columns)
        y = (x * row).relu() - x
        wanted = np.maximum(x.numpy() * row.numpy(), 0) - x.numpy()
        assert_close(y, wanted)
        counted = watch.since()
        if k > 0:
            assert (counted.pipeline_builds, counted.shader_compiles) == (0, 0)


def test_least_used_schedules_go(gpu: GpuDevice) -> None:
    for size in range(1, KEPT_PLANS + 20):
        fw.eval(fw.zeros((size,), device=gpu) + 1)
    assert len(gpu.plans) == KEPT_PLANS


@pytest.mark.usefixtures("long_graphs")
def test_a_long_graph_is_flushed(gpu: GpuDevice, watch: Watch) -> None:
    x = tensor(gpu, 5)
    watch.since()
    y = x
    for _ in range(MAX_PENDING + 10):
        y = y + 1
    # All but the newest node: a loop is cut before one of its steps.
    assert len(gpu.pending) == 11
    assert gpu.gpu.counters.submits == watch.before.submits + 1
    assert_close(y, x.numpy() + np.float32(MAX_PENDING + 10), scale=100)


def test_a_long_graph_runs_in_pieces(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum over products holds those of a piece, although all could be made first."""
    monkeypatch.setattr(scheduler, "PIECE_NODES", 8)
    monkeypatch.setattr(scheduler, "PIECE_BYTES", 16384)

    def peak(run: Callable[[GpuDevice], object]) -> int:
        w = fw.eye(64, device=gpu)
        fw.eval(w)
        y = w.sum() * 0
        for _ in range(20):
            y = (w @ w).sum() + y
        before = gpu.gpu.counters.snapshot()
        gpu.gpu.reset_memory_peaks()
        used = gpu.gpu.memory_stats()["in_use"]
        run(gpu)
        most = gpu.gpu.memory_stats()["peak_in_use"] - used
        found = gpu.gpu.counters - before
        assert (found.submits == 1) == (run is scheduler.flush)
        assert y.item() == 20 * 64
        return most

    assert peak(scheduler.flush_in_pieces) < peak(scheduler.flush) / 2


@pytest.mark.usefixtures("long_graphs")
@pytest.mark.parametrize("kind", ["software", "discrete"])
def test_a_backward_pass_starts_what_is_pending_before_it(
    kind: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the device has a processor of its own, and if it is enough to do."""
    info = dataclasses.replace(gpu.gpu.info, kind=kind)
    found = {}
    for depth in (EARLY_SUBMIT_NODES // 4, EARLY_SUBMIT_NODES):
        x = fw.tensor([2.0, 3.0], device=gpu, requires_grad=True)
        fw.eval()
        with monkeypatch.context() as patch:
            patch.setattr(gpu.gpu, "info", info)
            y = x
            for _ in range(depth):
                y = y * 0.5 + x
            loss = y.sum()
            before = gpu.gpu.counters.submits
            loss.backward()
            found[depth] = gpu.gpu.counters.submits - before
            assert x.grad is not None
            grad, value = x.grad.numpy(), loss.item()
        slope = 2 - 0.5**depth
        np.testing.assert_allclose(grad, [slope, slope], rtol=1e-6)
        np.testing.assert_allclose(value, 5 * slope, rtol=1e-6)
    assert list(found.values()) == [0, int(kind == "discrete")]


def test_an_error_leaves_the_device_usable(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor(gpu, 7, 11)
    fw.eval()
    kept = x * 5
    with monkeypatch.context() as patched:

        def fail(*_: object) -> None:
            raise OutOfDeviceMemory("allocate: none left")

        patched.setattr(gpu.gpu, "allocate_each", fail)
        with pytest.raises(OutOfDeviceMemory):
            fw.eval()
    assert gpu.pending == []
    with pytest.raises(RuntimeError) as raised:
        kept.numpy()
    assert str(raised.value) == (
        "read: the value was never computed, because running its graph failed:"
        " OutOfDeviceMemory: allocate: none left; compute it anew"
    )
    with pytest.raises(RuntimeError, match="never computed"):
        (kept + 1).numpy()
    assert gpu.pending == []
    assert_close(x * 5, x.numpy() * np.float32(5), exact=True)


def test_a_read_submits_what_it_depends_on(gpu: GpuDevice, watch: Watch) -> None:
    x = tensor(gpu, 7, 11)
    watch.since()
    other = (x @ x.T).exp()
    shared = x * 3
    later = shared.sum(0)
    waiting = list(gpu.pending)
    assert_close(shared + 1, x.numpy() * np.float32(3) + np.float32(1))
    assert gpu.gpu.counters.dispatches - watch.before.dispatches == 1
    assert gpu.pending == [waiting[0], waiting[1], waiting[3]]
    assert_close(later, (x.numpy() * np.float32(3)).sum(0))
    assert_close(other, np.exp(x.numpy() @ x.numpy().T))


def test_what_is_left_keeps_its_operands(gpu: GpuDevice) -> None:
    """Their memory is not given to a result, although nobody holds them."""
    wanted = np.arange(37, dtype=np.float32)
    x = fw.tensor(wanted, device=gpu)
    y = x * 2
    fw.eval()
    later = y + 1
    read = y * 3
    del y
    assert_close(read, wanted * 6)
    assert_close(later, wanted * 2 + 1)


def test_the_old_content_is_kept_for_a_change_that_is_left(gpu: GpuDevice) -> None:
    x = tensor(gpu, 37)
    old = x.numpy()
    x_old = x.array.value
    read = x * 3
    x.fill_(5.0)
    assert_close(read, old * np.float32(3), exact=True)
    assert x.array.former is x_old
    with pytest.raises(OutOfDeviceMemory), failing(gpu, OutOfDeviceMemory("full")):
        fw.eval()
    assert_close(x, old, exact=True)


def test_many_reads_submit_what_they_left(gpu: GpuDevice) -> None:
    x, total = tensor(gpu, 5), tensor(gpu, 5)
    fw.eval()
    plans = []
    for _ in range(3 * (MAX_PARTIAL_READS + 1)):
        total.add_(x)
        (x * 2).numpy()
        assert len(gpu.pending) <= MAX_PARTIAL_READS + 1
        plans.append(len(gpu.plans))
    assert plans[MAX_PARTIAL_READS + 1] == plans[-1]


def test_what_nobody_can_read_is_dropped_by_a_read(gpu: GpuDevice) -> None:
    x = tensor(gpu, 5)
    fw.eval()
    kept, unused = x + 1, x.exp()
    del unused
    (x * 2).numpy()
    assert [node.outputs[0] for node in gpu.pending] == [kept.array.value]


@contextmanager
def failing(gpu: GpuDevice, error: BaseException) -> Iterator[None]:
    def fail(*_: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gpu.gpu, "allocate_each", fail)
        yield


@pytest.mark.parametrize("error", [OutOfDeviceMemory("full"), ShaderError("odd")])
def test_what_was_to_change_holds_its_content_again(
    error: Exception, gpu: GpuDevice
) -> None:
    x = tensor(gpu, 7, 11)
    fw.eval()
    wanted, seen = x.numpy(), x.array.version
    view = x[2:]
    x.add_(1).mul_(view.sum())
    result = x + 1
    with pytest.raises(type(error)), failing(gpu, error):
        fw.eval()
    assert gpu.pending == []
    assert_close(x, wanted, exact=True)
    assert_close(view, wanted[2:], exact=True)
    assert x.array.version > seen + 2
    with pytest.raises(RuntimeError, match=f"{type(error).__name__}: {error}"):
        result.numpy()
    assert_close(x.add_(1), wanted + np.float32(1), exact=True)


@pytest.mark.parametrize("taken", [False, True])
def test_an_interrupted_submission_is_made_or_not(
    taken: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and nothing is done twice."""
    x = tensor(gpu, 37)
    fw.eval()
    wanted = x.numpy() + np.float32(1)
    x.add_(1)
    with monkeypatch.context() as patched:
        # The same graph may have been recorded by now.
        for kind in (vkbackend.Batch, SequenceSubmission):
            submit = kind.submit

            def interrupted(batch: Any, submit: Any = submit) -> None:
                if taken:
                    submit(batch)
                raise KeyboardInterrupt

            patched.setattr(kind, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fw.eval()
    assert (gpu.pending == []) is taken
    before = gpu.gpu.counters.dispatches
    assert_close(x, wanted, exact=True)
    assert gpu.gpu.counters.dispatches - before == int(not taken)
    assert x.array.former is None


def test_what_can_run_runs_where_something_cannot(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor(gpu, 16, 16)
    fw.eval()
    first, bad, late = x + 1, x @ x, x * 7
    plan = planning.build_plan

    def fails(
        gpu: Any, nodes: Sequence[lazy_graph.Node], *args: Any, **kwargs: Any
    ) -> Any:
        if bad.array.value.node in nodes:
            raise ShaderError("no products today")
        return plan(gpu, nodes, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(planning, "build_plan", fails)
        with pytest.raises(ShaderError):
            fw.eval()
    assert_close(first, x.numpy() + np.float32(1), exact=True)
    for lost in (bad, late):
        with pytest.raises(RuntimeError, match="ShaderError: no products today"):
            lost.numpy()


def test_nodes_that_run_apart_leave_what_is_pending(gpu: GpuDevice) -> None:
    x = tensor(gpu, 4)
    fw.eval()
    later = x + 1
    waiting = list(gpu.pending)
    doubled = x * 2
    gpu.pending.pop()
    node = doubled.array.value.node
    assert node is not None
    scheduler.run_detached(gpu, [node])
    assert gpu.pending == waiting
    assert isinstance(doubled.array.value.buffer, Buffer)
    assert_close(later, x.numpy() + 1)


def test_threads_share_a_device(gpu: GpuDevice) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> float:
        data = np.random.default_rng(seed).uniform(0, 1, 50).astype(np.float32)
        x = fw.tensor(data, device=gpu)
        for _ in range(20):
            x = (x * 0.5 + 0.25).relu()
            if seed % 2:
                fw.eval()
        return float(np.abs(x.numpy() - 0.5).max())

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, range(8))) < 1e-5


def test_a_result_dropped_while_its_plan_is_made_is_there_next_time(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor(gpu, 3, 13)
    held = [x * 7]
    build = planning.build_plan

    def drops(*args: Any, **kwargs: Any) -> Any:
        # As the collection of garbage may do at any moment.
        held.clear()
        return build(*args, **kwargs)

    monkeypatch.setattr(planning, "build_plan", drops)
    fw.eval()
    assert held == []
    assert_close(x * 7, x.numpy() * 7)


@pytest.mark.parametrize("left", range(4))
def test_a_flush_between_the_copies_of_operands(left: int, gpu: GpuDevice) -> None:
    """Both operands are copied first, and any of these may fill the graph."""
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, index = fw.tensor(base, device=gpu), fw.zeros((3, 4), dtype=fw.int32, device=gpu)
    y = tensor(gpu, 3)
    fw.eval()
    for _ in range(MAX_PENDING - left):
        y = y + 1
    found = x.T.gather(1, index.T)
    assert_close(found, np.repeat(base[:1].T, 3, axis=1))


def within(patch: pytest.MonkeyPatch, when: str, handler: Callable[[], object]) -> None:
    """Call a function within the next submission, as signal handlers are."""
    plan_batch = scheduler.plan_batch

    def called(*args: Any) -> Any:
        patch.setattr(scheduler, "plan_batch", plan_batch)
        if when == "before":
            handler()
        batch = plan_batch(*args)
        if when == "taken":
            # What comes next finds nothing to submit.
            batch.submit()
        if when != "before":
            handler()
        return batch

    patch.setattr(scheduler, "plan_batch", called)


@pytest.mark.parametrize("when", ["before", "after", "taken"])
@pytest.mark.parametrize("partial", [False, True])
def test_a_handler_within_a_submission_changes_nothing_of_it(
    when: str, partial: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, u = tensor(gpu, 37), tensor(gpu, 37)
    fw.eval()
    wanted, known = x.numpy() + np.float32(1), u.numpy()
    asked: list[fw.Tensor] = []

    def handler() -> None:
        asked.append(u * 3)
        assert_close(u, known, exact=True)
        for submit in (x.numpy, fw.eval, asked[0].numpy):
            with pytest.raises(vkbackend.ReentrantError, match="signal handler"):
                submit()

    x.add_(1)
    other = u + 1 if partial else None
    before = gpu.gpu.counters.dispatches
    within(monkeypatch, when, handler)
    assert_close(x, wanted, exact=True)
    assert gpu.gpu.counters.dispatches == before + 1
    assert_close(x, wanted, exact=True)
    assert_close(asked[0], known * np.float32(3), exact=True)
    if other is not None:
        assert_close(other, known + np.float32(1), exact=True)
    assert gpu.running is None


def test_what_a_handler_lets_pass_leaves_all_pending(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor(gpu, 37)
    fw.eval()
    wanted = x.numpy() + np.float32(1)
    x.add_(1)
    within(monkeypatch, "after", x.numpy)
    with pytest.raises(vkbackend.ReentrantError):
        fw.eval()
    assert len(gpu.pending) == 1
    assert_close(x, wanted, exact=True)


def test_what_an_interrupt_left_of_a_submission_hinders_no_other(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while its traceback, and so its frames, are there."""
    x = tensor(gpu, 37)
    fw.eval()
    wanted = x.numpy() + np.float32(1)
    x.add_(1)

    def interrupted() -> None:
        raise KeyboardInterrupt

    within(monkeypatch, "after", interrupted)
    try:
        fw.eval()
    except KeyboardInterrupt:
        frame = sys.exc_info()[2]
        while frame is not None and frame.tb_frame.f_code.co_name != "flush":
            frame = frame.tb_next
        assert frame is not None
        # As where a second interrupt ends its `finally`.
        gpu.running = frame.tb_frame
        assert_close(x, wanted, exact=True)
    assert gpu.running is None


def test_a_submission_that_another_comes_before_loses_nothing(gpu: GpuDevice) -> None:
    """A handler may submit on the device itself, or read what is in memory."""
    x, y = tensor(gpu, 37), tensor(gpu, 37)
    fw.eval()
    wanted, known = x.numpy() + np.float32(1), y.numpy()
    x.add_(1)
    queue = gpu.gpu.compute_queue
    reserve = queue.reserve

    def interrupted() -> vkbackend.TimelinePoint:
        del queue.reserve
        point = reserve()
        batch = gpu.gpu.batch()
        batch.fill(gpu.gpu.allocate(4))
        batch.submit()
        assert_close(y, known, exact=True)
        return point

    queue.reserve = interrupted  # type: ignore[method-assign]
    fw.eval()
    assert gpu.pending == []
    assert_close(x, wanted, exact=True)


def test_a_read_while_storages_get_other_content_drops_none_of_it(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, other = tensor(gpu, 37), tensor(gpu, 37)
    fw.eval()
    wanted = x.numpy() * np.float32(2)
    node = (x * 2).array.value.node
    assert node is not None
    gpu.pending.clear()
    read = other + 1
    replace = lazy_graph.Array.replace

    def interrupted(array: lazy_graph.Array, value: lazy_graph.Value) -> None:
        with pytest.raises(vkbackend.ReentrantError):
            read.numpy()
        replace(array, value)

    with monkeypatch.context() as patched:
        patched.setattr(lazy_graph.Array, "replace", interrupted)
        scheduler.append_replacing(gpu, [node], [x.array])
    read.numpy()
    assert_close(x, wanted, exact=True)


@pytest.mark.parametrize("why", ["a lost operand", "no kernel"])
def test_what_can_never_run_is_dropped(
    why: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a read has left it: then it is older than what it took with it."""
    x, u, square = tensor(gpu, 37), tensor(gpu, 37), tensor(gpu, 4, 4)
    fw.eval()
    wanted = x.numpy() + np.float32(2)
    lost = u * 3
    with pytest.raises(ShaderError), failing(gpu, ShaderError("odd")):
        fw.eval()
    hopeless = lost + 1 if why == "a lost operand" else square @ square
    node = hopeless.array.value.node
    plan = planning.build_plan

    def fails(
        gpu: Any, nodes: Sequence[lazy_graph.Node], *args: Any, **kwargs: Any
    ) -> Any:
        if node in nodes:
            raise ShaderError("never")
        return plan(gpu, nodes, *args, **kwargs)

    monkeypatch.setattr(planning, "build_plan", fails)
    rounds = 3 if why == "a lost operand" else 4
    for _ in range(rounds):
        (u * 2).numpy()
        x.add_(1)
        with suppress(RuntimeError, ShaderError):
            fw.eval()
    assert_close(x, wanted, exact=True)
    with pytest.raises(RuntimeError, match="never computed"):
        hopeless.numpy()


@pytest.mark.parametrize("error", [OutOfDeviceMemory("full"), ShaderError("odd")])
def test_what_a_read_has_left_outlives_what_newer_work_failed_for(
    error: Exception, gpu: GpuDevice
) -> None:
    x, u = tensor(gpu, 37), tensor(gpu, 37)
    fw.eval()
    wanted = x.numpy() + np.float32(1)
    x.add_(1)
    (u * 2).numpy()
    x.mul_(3)
    with pytest.raises(type(error)), failing(gpu, error):
        fw.eval()
    assert_close(x, wanted, exact=True)


BYTES = 1 << 20


def large(gpu: GpuDevice, value: float) -> fw.Tensor:
    return fw.tensor(np.full(BYTES // 4, value, np.float32), device=gpu)


def test_a_read_does_not_leave_much_in_memory_for_what_it_leaves(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody else holds any more counts, such as the batches of steps before."""
    monkeypatch.setattr(scheduler, "MAX_PENDING_BYTES", 2 * BYTES)
    total = large(gpu, 0.0)
    fw.eval()
    left = []
    for k in range(MAX_PARTIAL_READS):
        batch = large(gpu, float(k))
        total.add_(batch)
        assert batch.max().item() == k
        left.append(len(gpu.pending))
    assert left[:6] == [1, 2, 0, 1, 2, 0]
    assert_close(total[:3], np.full(3, sum(range(MAX_PARTIAL_READS)), np.float32))


@pytest.mark.parametrize("want", ["upload", "empty", "read"])
def test_what_is_pending_runs_where_memory_is_wanting(
    want: str, gpu: GpuDevice
) -> None:
    """It holds what it reads, and may have no room to wait."""
    size = 40 * BYTES
    total, batch = (fw.full(size // 4, k, device=gpu) for k in (1.0, 2.0))
    one = fw.ones(1, device=gpu)
    fw.eval()
    with room_for(gpu.gpu, BYTES):
        total.add_(batch)
        del batch
        assert len(gpu.pending) == 1
        if want == "upload":
            made = fw.tensor(np.ones(size // 4, np.float32), device=gpu)
        elif want == "empty":
            made = fw.empty(size // 4, device=gpu)
        else:
            made = one.expand(size // 4) + 0
        first = made[:2].tolist()
        assert want == "empty" or first == [1, 1]
        assert gpu.pending == []
        assert total[-2:].tolist() == [3, 3]
