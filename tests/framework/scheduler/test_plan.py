"""What the fusion rules promise in dispatches, and the memory that a plan takes."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen.lower import WORKGROUP
from vkbackend.framework.codegen.rowwise_kernel import fuses_rows
from vkbackend.framework.scheduler import lowering_cache, plan

pytestmark = pytest.mark.core

Program = Callable[[fw.Tensor, fw.Tensor, fw.Tensor], Any]


def matrix(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, (12, 12)).astype(np.float32)


def several(x: fw.Tensor, b: fw.Tensor) -> list[fw.Tensor]:
    return [x, x - b, (x - b).exp() * x]


def softmax(x: fw.Tensor) -> fw.Tensor:
    power = (x - x.amax(-1, keepdim=True)).exp()
    return power / power.sum(-1, keepdim=True)


def normalised(x: fw.Tensor) -> fw.Tensor:
    apart = x - x.mean(-1, keepdim=True)
    return apart * ((apart * apart).mean(-1, keepdim=True) + 1e-5).rsqrt()


PROGRAMS: dict[str, tuple[int, Program]] = {
    "affine": (1, lambda x, w, b: (x * w + b).relu()),
    "chain": (1, lambda x, w, b: x.exp().log().sqrt().sin() * 2 - 1),
    "broadcast": (1, lambda x, w, b: x * w[0] + b[:, :1]),
    "views of inputs": (1, lambda x, w, b: x.T * w + b[0].expand(12, 12)),
    "several outputs": (1, lambda x, w, b: several(x * w, b)),
    "diamond": (1, lambda x, w, b: (x * w).exp() + (x * w).sin()),
    "same value twice": (1, lambda x, w, b: (x + w) * (x + w)),
    "cast": (1, lambda x, w, b: (x * 100).int().float() / 10),
    "made from nothing": (1, lambda x, w, b: x * fw.full_like(x, 2.0) + b),
    "random": (1, lambda x, w, b: ops.dropout(x * w, 0.5)),
    "comparison": (1, lambda x, w, b: ops.where(x > w, x, w) * b),
    # A result that is read in another order is made in that order.
    "view of a result": (1, lambda x, w, b: (x * w).T + b),
    "slice of a result": (2, lambda x, w, b: (x * w)[2:, ::3] + b[2:, ::3]),
    "two shapes": (1, lambda x, w, b: [x * w, x[0] * w[0]]),
    "two programs": (2, lambda x, w, b: [x * w, x[0] + w[0]]),
    # Turned in memory, so that it is no epilogue on GPUs.
    "around a product": (4, lambda x, w, b: ((x + 1) @ (w * 1)).T.contiguous().relu()),
    "around a sum": (1, lambda x, w, b: (x * w).sum(1) * 2),
    "around a sum of columns": (3, lambda x, w, b: (x * w).sum(0) * 2),
    "a sum alone": (1, lambda x, w, b: x.sum(1)),
    "softmax": (1, lambda x, w, b: softmax(x)),
    "logarithm of softmax": (1, lambda x, w, b: softmax(x * w).log()),
    "normalisation": (1, lambda x, w, b: normalised(x) * w[0] + b[0]),
    "variance": (1, lambda x, w, b: ops.var(x * w, 1, keepdim=True) + b),
    "everything": (1, lambda x, w, b: ((x * w).mean() + b[0, 0]).sqrt()),
    "two sums": (2, lambda x, w, b: [x.sum(1) + 1, (x.sum(1, keepdim=True) - b) * w]),
    # The sum is over what another one gave, in another order.
    "a sum of sums": (2, lambda x, w, b: (x * w).sum(1).sum()),
    "rows and columns": (2, lambda x, w, b: softmax(softmax(x).T)),
    # Siblings of one shape stay apart unless one reads the other.
    "siblings": (2, lambda x, w, b: [x * w, x + b]),
    "in place": (1, lambda x, w, b: x.clone().add_(w).mul_(b)),
}


# Those that take more where a device has no kernels over rows.
OF_ROWS = (
    "around a sum", "softmax", "logarithm of softmax", "normalisation", "variance",
    "everything", "two sums", "a sum of sums", "rows and columns",
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_dispatches(name: str, gpu: GpuDevice) -> None:
    expected, program = PROGRAMS[name]
    inputs = [fw.tensor(matrix(seed), device=gpu) for seed in range(3)]
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    answer = program(*inputs)
    fw.eval()
    counted = gpu.gpu.counters - before
    assert counted.submits == 1
    fw.manual_seed(20)
    wanted = program(*(tensor.cpu() for tensor in inputs))
    if name != "random":
        for found, other in zip(listed(answer), listed(wanted), strict=True):
            assert_close(found, other.numpy(), scale=100)  # chains of a dozen ops
    if fuses_rows(gpu.gpu.info) or name not in OF_ROWS:
        assert counted.dispatches == expected


def listed(answer: Any) -> list[fw.Tensor]:
    return answer if isinstance(answer, list) else [answer]


def test_long_chains_are_cut(gpu: GpuDevice) -> None:
    x = fw.ones((5,), device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    for _ in range(200):
        x = x * 1.01
    fw.eval()
    assert (gpu.gpu.counters - before).dispatches == 4
    assert_close(x, np.full(5, 1.01**200, np.float32), scale=100)  # 200 roundings


def test_many_operands(gpu: GpuDevice) -> None:
    # More addresses than fit into 128 bytes of push constants.
    data = [np.full((7, 3), k, np.float32) for k in range(40)]
    tensors = [fw.tensor(each, device=gpu) for each in data]
    total = tensors[0]
    for each in tensors[1:]:
        total = total + each
    assert_close(total, sum(data), exact=True)


@pytest.mark.usefixtures("_no_collector")
def test_memory_between_kernels_is_reused(gpu: GpuDevice) -> None:
    # Or new schedules push out old ones, whose tables are then freed meanwhile.
    gpu.plans.clear()
    x = fw.ones((256, 256), device=gpu)
    (x @ x).numpy()
    gpu.gpu.synchronize()
    before = gpu.gpu.memory_stats()["in_use"]
    y = x
    for _ in range(8):
        y = (y @ x) * (1 / 256)
    assert_close(y, np.ones((256, 256), np.float32))
    gpu.gpu.synchronize()
    assert gpu.gpu.memory_stats()["in_use"] == before + y.numel() * 4


def test_results_stay_when_inputs_go(gpu: GpuDevice) -> None:
    x = fw.tensor(matrix(0), device=gpu)
    y = x * 2
    del x
    z = y + 1
    del y
    assert_close(z, matrix(0) * np.float32(2) + np.float32(1))


def test_more_workgroups_than_one_dimension_takes(gpu: GpuDevice) -> None:
    # 256 invocations of 4 elements each; 65,535 workgroups are 67,107,840 elements.
    count = 65_535 * 1024 + 5
    x = fw.full((count,), 3, "uint8", gpu) + fw.ones((1,), "uint8", gpu)
    assert_close(x[-7:], np.full(7, 4, np.uint8))
    assert_close(x[65_535 * 512 : 65_535 * 512 + 3], np.full(3, 4, np.uint8))
    assert (x.numpy() == 4).all()


def test_empty_results_take_no_dispatch(gpu: GpuDevice) -> None:
    x = fw.zeros((0, 3), device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    y = (x * 2).relu() @ fw.ones((3, 5), device=gpu)
    assert y.tolist() == []
    assert y.shape == (0, 5)
    assert (gpu.gpu.counters - before).dispatches <= 1


SIBLINGS: dict[str, tuple[int, Callable[[list[fw.Tensor]], Any]]] = {
    "one program": (1, lambda xs: [x.exp() * 2 for x in xs]),
    "each its number": (1, lambda xs: [x * (k + 0.5) for k, x in enumerate(xs)]),
    "each its broadcast": (
        1,
        lambda xs: [x[:n, None] * x[:n] for n, x in zip((8, 16, 200), xs[3:])],
    ),
    # The last exp needs one of the others.
    "in turn": (3, lambda xs: [xs[0].exp(), xs[1].exp().cumsum(0).exp()]),
    # Both exp can wait for the sums that only the second needs.
    "sinking": (2, lambda xs: [xs[0].exp(), xs[1].cumsum(0).exp()]),
    # The last exp does not need the sums and goes before them.
    "rising": (2, lambda xs: [xs[0].exp().cumsum(0), xs[1].exp()]),
    "two outputs": (1, lambda xs: [z for x in xs for y in [x * 2] for z in (y, y + 1)]),
    "in place": (1, lambda xs: [x.clone().add_(1.0) for x in xs]),
    "bytes": (1, lambda xs: [x > 0.75 for x in xs]),
    "empty": (1, lambda xs: [x[:n] * 3 for n, x in enumerate(xs)]),
}


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings_are_one_dispatch(name: str, gpu: GpuDevice) -> None:
    expected, program = SIBLINGS[name]
    rng = np.random.default_rng(0)
    sizes = [5, 64, 1, 1023, 1024, 4100, 300]
    xs = [
        fw.tensor(rng.uniform(0.5, 1, n).astype(np.float32), device=gpu) for n in sizes
    ]
    for _ in range(3):  # The last time, its commands are recorded.
        first = program(xs)
        fw.eval()
        del first
    before = gpu.gpu.counters.snapshot()
    answer = listed(program(xs))
    fw.eval()
    counted = gpu.gpu.counters - before
    for found, other in zip(
        answer, listed(program([x.cpu() for x in xs])), strict=True
    ):
        assert_close(found, other.numpy(), scale=1000)
    assert counted.dispatches == expected
    assert counted.uploads == 0


@pytest.mark.usefixtures("long_graphs")
def test_many_siblings_are_several_dispatches(gpu: GpuDevice) -> None:
    base = np.arange(2800, dtype=np.float32)
    x = fw.tensor(base, device=gpu)
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    parts = [x[4 * k : 4 * k + 1] * 2 for k in range(700)]
    fw.eval()
    assert (gpu.gpu.counters - before).dispatches == 2
    assert_close(ops.cat(parts), base[::4] * 2)


def test_large_launches_stay_alone_on_a_software_device(gpu: GpuDevice) -> None:
    xs = [fw.ones(4 * WORKGROUP * groups, device=gpu) for groups in (64, 65, 64)]
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    kept = [x * 2 for x in xs]
    fw.eval()
    software = gpu.gpu.info.kind == "software"
    assert (gpu.gpu.counters - before).dispatches == (2 if software else 1)
    assert all(float(each.sum()) == 2 * each.numel() for each in kept)


def test_equal_steps_of_a_loop_are_one_kernel(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, build = [], lowering_cache.build_chosen_kernel

    def counting(nodes: Any, *args: Any, **options: Any) -> Any:
        built.append([node.op.name for node in nodes])
        return build(nodes, *args, **options)

    monkeypatch.setattr(lowering_cache, "build_chosen_kernel", counting)
    w, x = (fw.tensor(matrix(k) / 20, device=gpu) for k in range(2))
    for steps in (5, 9):
        h, expected = x, matrix(1) / 20
        for _ in range(steps):
            h = ops.tanh((h * 2 + x) @ w) * x
            expected = np.tanh((expected * 2 + matrix(1) / 20) @ (matrix(0) / 20))
            expected = expected * (matrix(1) / 20)
        built.clear()
        assert_close(h.numpy(), expected.astype(np.float32))
        assert len(built) <= 3  # the first step, the others, the last


def test_a_plan_leaves_the_collector_little_to_visit(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its lists of nodes, and what it makes on the way is no old object."""
    w, x = (fw.tensor(matrix(k) / 20, device=gpu) for k in range(2))

    def loop(steps: int) -> None:
        h = x
        for _ in range(steps):
            h = ops.tanh((h * 2 + x) @ w) * x
        fw.eval(h)

    collections: list[bool] = []
    planning: list[bool] = []
    build = plan._Builder.build

    def building(*args: Any) -> plan.Plan:
        planning.append(True)
        try:
            return build(*args)
        finally:
            planning.pop()

    def collecting(phase: str, _: dict[str, int]) -> None:
        collections.extend(planning if phase == "start" else ())

    gpu.plans.clear()
    loop(60)
    monkeypatch.setattr(plan._Builder, "build", building)
    gc.collect()
    before = len(gc.get_objects())
    gc.callbacks.append(collecting)
    try:
        loop(63)
    finally:
        gc.callbacks.remove(collecting)
    gc.collect()
    assert len(gc.get_objects()) - before < 5 * 63 * 4
    assert not collections
    assert gc.isenabled()
