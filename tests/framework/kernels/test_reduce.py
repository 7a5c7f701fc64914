"""How reductions are cut into workgroups: nothing left out, nothing twice."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, float32
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import (
    MAX_GROUPS,
    PersistentScratch,
    StridedSpec,
)
from vkbackend.framework.kernels import reduce, shader_types
from vkbackend.framework.kernels.reduce import (
    MIN_CHUNK,
    OPERATIONS,
    ReductionKernel,
    group_tile,
    group_tiles,
    need_countable,
    reduce_dispatches,
    stateful,
    sum_like,
)

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
KINDS = ["software", "discrete"]


def placed(shape: tuple[int, ...]) -> StridedSpec:
    return StridedSpec(shape, float32, Layout.contiguous(shape))


def sums() -> ReductionKernel:
    return sum_like("SUM", float32, float32)


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
@given(SHAPES, st.data())
def test_every_output_has_its_invocations(
    device: vkbackend.Device, kind: str, shape: tuple[int, ...], data: st.DataObject
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    dims = tuple(k for k in range(len(shape)) if data.draw(st.booleans()))
    (only,) = reduce_dispatches(info, sums(), placed(shape), dims, 1)
    outputs, count = only.push["outputs"], only.push["count"]
    assert isinstance(outputs, int)
    assert isinstance(count, int)
    assert outputs * count == placed(shape).numel
    per_workgroup = int(only.constants["LOCAL_X"]) // int(only.constants["GROUP"])
    per_workgroup *= 4 if "COLUMN_QUADS" in only.defines else 1
    assert only.grid[0] * only.grid[1] * per_workgroup >= outputs
    assert only.grid[2] == 1


@pytest.fixture
def any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce short runs of words with uniform loads too."""
    monkeypatch.setattr(reduce, "LEAST_RUN", 0)


def test_short_runs_of_small_integers_pay(device: vkbackend.Device) -> None:
    software = dataclasses.replace(
        device.info,
        kind="software",
        subgroup_size=8,
        supported=device.info.supported | {"shader_int64"},
    )
    for name, count, pays in (
        ("uint8", 1000, True),
        ("int16", 1000, True),
        ("float16", 1000, False),
        ("float32", (1 << 18) - 1, False),
        ("float32", 1 << 18, True),
    ):
        dtype = DTYPES[name]
        x = StridedSpec((count,), dtype, Layout.contiguous((count,)))
        first = reduce_dispatches(software, sum_like("MAX", dtype, dtype), x, (0,))[0]
        assert ("UNIFORM_LOADS" in first.defines) == pays


@pytest.mark.usefixtures("any_run")
def test_software_devices_take_runs_with_uniform_loads(
    device: vkbackend.Device,
) -> None:
    software, discrete = (
        dataclasses.replace(
            device.info,
            kind=kind,
            subgroup_size=8,
            supported=device.info.supported | {"shader_int64"},
        )
        for kind in KINDS
    )
    first, second = reduce_dispatches(software, sums(), placed((3, 1000)), (1,))
    assert (first.constants["LOCAL_X"], first.grid) == (8, (3, 1, 4))
    assert first.defines == {"UNIFORM_LOADS": "1", "LANES": "8", "ROUNDS": "32"}
    # Every invocation leaves a state.
    assert (second.push["count"], second.push["outputs"]) == (4 * 8, 3)
    assert first.push["out_"] == second.push["x"]
    for info, shape, dims in (
        (discrete, (3, 1000), (1,)),
        (software, (3, 255), (1,)),
        (software, (1000, 3), (0,)),
        (software, ((1 << 20) + 1,), (0,)),
    ):
        for step in reduce_dispatches(info, sums(), placed(shape), dims):
            assert "UNIFORM_LOADS" not in step.defines


@pytest.mark.usefixtures("any_run")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [256, 259, 511, 1000])
@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "float64", "int8", "uint8", "bool", "int64", "uint16"],
)
def test_runs_of_any_length(dtype: str, count: int, gpu: GpuDevice) -> None:
    values = np.random.default_rng(count).integers(-3, 5, (3, count + 1))
    host = (values % 2 == 0 if dtype == "bool" else values).astype(dtype)[:, 1:]
    x = fw.tensor(host, device=gpu)
    numbers = host if dtype == "bool" else host.astype(np.int64)
    assert np.array_equal(x.sum(1).numpy(), numbers.sum(1))
    assert x.sum().numpy() == numbers.sum()
    assert x.count_nonzero().numpy() == np.count_nonzero(host)
    if dtype != "bool":
        assert np.array_equal(x.amax(1).numpy(), host.max(1))
        assert x.min().numpy() == host.min()
        assert np.array_equal(x.argmin(1).numpy(), host.argmin(1))
        assert x.argmax().numpy() == host.argmax()
    if dtype.startswith("float"):
        assert_close(x.var(), np.float64(host).var(ddof=1).astype(dtype), scale=100)
        signs = fw.tensor(np.where(host > 0, 1, -1).astype(dtype), device=gpu)
        assert np.array_equal(
            signs.prod(1).numpy(), np.where(host > 0, 1, -1).astype(dtype).prod(1)
        )


@pytest.mark.usefixtures("any_run")
def test_nan_wins_in_a_run(gpu: GpuDevice) -> None:
    host = np.zeros(1000, np.float32)
    for place in (0, 7, 998, 999):
        host[:] = -np.arange(1000)
        host[place] = np.nan
        x = fw.tensor(host, device=gpu)
        assert np.isnan(x.max().numpy())
        assert np.isnan(x.min().numpy())
        assert x.argmax().numpy() == place


@pytest.mark.core
def test_sums_of_few_columns_are_cut_too(device: vkbackend.Device) -> None:
    """A workgroup of them has the elements of many columns."""
    info = dataclasses.replace(device.info, kind="discrete")
    first, second = reduce_dispatches(info, sums(), placed((2048, 128)), (0,))
    assert (first.push["outputs"], second.push["outputs"]) == (128, 128)
    assert first.grid[2] == second.push["count"] == 2048 * 32 // MIN_CHUNK
    (only,) = reduce_dispatches(info, sums(), placed((128, 512)), (0,))
    assert only.grid[2] == 1


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_long_reductions_are_cut_and_combined(
    device: vkbackend.Device, kind: str
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    # Hardware reads the tensor four elements at a time, but not every second element.
    every_second = StridedSpec((1 << 22,), float32, Layout((1 << 22,), (2,)))
    first, second = reduce_dispatches(info, sums(), every_second, (0,))
    chunks = first.grid[2]
    assert 1 < chunks <= MAX_GROUPS
    assert first.push["out_"] == second.push["x"]
    assert (second.push["count"], second.push["outputs"]) == (chunks, 1)
    shuffles = shader_types.shuffle_defines(info, {}, 256)
    assert first.defines == second.defines == shuffles


@pytest.mark.core
def test_one_result_of_quads_takes_one_dispatch(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="discrete")
    (only,) = reduce_dispatches(info, sums(), placed((1 << 22,)), (0,))
    shuffles = shader_types.shuffle_defines(info, {}, 256)
    assert only.defines == {"QUADS": "1", "ONCE": "1"} | shuffles
    assert only.constants["GROUP"] == only.constants["LOCAL_X"]
    passed, chunks = only.push["passed"], only.grid[2]
    assert isinstance(passed, PersistentScratch)
    # In front of the states there is a counter, as large as one of them at most.
    assert passed.size >= 8 + 4 * chunks
    assert len(reduce_dispatches(info, sums(), placed((2, 1 << 22)), (1,))) == 2


@pytest.mark.parametrize("shape", [(7, 4), (3, 1000), (2, 40_004), (5, 30), (33, 256)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_four_elements_at_a_time(
    shape: tuple[int, int], dtype: str, quads: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(-40, 40, shape).astype(dtype)
    x = fw.tensor(data, device=quads)
    np.testing.assert_array_equal(x.argmax(1).numpy(), data.argmax(1))
    np.testing.assert_array_equal(x.amin(1).numpy(), data.min(1))
    np.testing.assert_array_equal(x.argmin().numpy(), data.argmin())
    np.testing.assert_array_equal(x.amax((0, 1)).numpy(), data.max())
    wide = data.astype(np.float64)
    for dims in (1, (0, 1)):
        total = x.sum(dims).numpy().astype(np.float64)
        np.testing.assert_allclose(total, wide.sum(dims), rtol=1e-3, atol=0.5)
    if dtype == "float32":
        found = ops.var(x, 1).numpy()
        np.testing.assert_allclose(found, wide.var(1, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(33, 256), (5, 1000), (70, 16)])
def test_invocations_have_several_loads_of_many_rows(
    shape: tuple[int, int], quads: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, (_, count) = quads.gpu.info, shape
    kernel = stateful("reduce/minmax", float32, 2, {}, {})

    def group() -> int:
        (only,) = reduce_dispatches(info, kernel, placed(shape), (1,), 1)
        return int(only.constants["GROUP"])

    usual = group()
    monkeypatch.setattr(reduce, "ENOUGH_INVOCATIONS", 0)
    assert group() == max(1, usual // reduce.QUADS_OF_STATE)
    assert group() * 16 <= count
    data = np.random.default_rng(0).integers(-40, 40, shape).astype(np.float32)
    x = fw.tensor(data, device=quads)
    np.testing.assert_array_equal(x.argmax(1).numpy(), data.argmax(1))
    for found, wanted in zip(x.aminmax(dim=1), (data.min(1), data.max(1))):
        np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_allclose(ops.var(x, 1).numpy(), data.var(1, ddof=1), rtol=1e-5)


def test_transposed_tensors_are_reduced_in_the_order_of_memory(
    device: vkbackend.Device,
) -> None:
    turned = Layout((4096, 512), (1, 4096))
    x = StridedSpec(turned.shape, float32, turned)
    plain = placed((512, 4096))
    dims = (0, 1)
    found, wanted = (
        reduce_dispatches(device.info, sums(), each, dims) for each in (x, plain)
    )
    assert found == wanted
    ordered = sums()._replace(ordered=True)
    assert reduce_dispatches(device.info, ordered, x, dims) != wanted


@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_permuted_tensors_are_reduced(dims: tuple[int, ...], gpu: GpuDevice) -> None:
    data = np.random.default_rng(4).standard_normal((12, 20, 33)).astype("f4")
    x, turned = fw.tensor(data, device=gpu).permute(dims), data.transpose(dims)
    for over in (None, (0, 1), (0, 2), (1, 2)):
        total = x.sum(over).numpy()
        np.testing.assert_allclose(total, turned.sum(over), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(x.amax(over).numpy(), turned.max(over))
    assert x.argmax().item() == turned.argmax()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_last_workgroup_combines_all(dtype: str, quads: GpuDevice) -> None:
    """Anew each time that it runs, twice in one batch, and in a replay."""
    rng = np.random.default_rng(0)
    data = rng.integers(-40, 40, (3, 40_004)).astype(dtype)
    rows = fw.tensor(data, device=quads)
    whole = data.astype(np.float64).sum(1)

    def found() -> list[fw.Tensor]:
        return [call(row) for row in rows for call in (ops.sum, ops.argmax, ops.amin)]

    steps = (found, found, replayed := fw.jit(found), replayed, replayed)
    for step in steps:
        values = [value.item() for value in step()]
        np.testing.assert_allclose(values[::3], whole, rtol=1e-3)
        assert values[1::3] == data.argmax(1).tolist()
        assert values[2::3] == data.min(1).tolist()
    if dtype == "float32":
        np.testing.assert_allclose(ops.var(rows).item(), data.var(ddof=1), rtol=1e-5)
        np.testing.assert_allclose(ops.mean(rows).item(), data.mean(), rtol=1e-5)


@pytest.fixture
def any_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce few columns four at a time too."""
    monkeypatch.setattr(reduce, "LEAST_FOR_COLUMNS", 0)


@pytest.mark.usefixtures("any_columns")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(3, 64), (1000, 36), (9, 5, 260), (20_000, 32)])
def test_four_adjacent_outputs_at_a_time(
    shape: tuple[int, ...], dtype: str, quads: GpuDevice
) -> None:
    """Each is the number that it is of elements that begin anywhere."""
    rng = np.random.default_rng(0)
    data = rng.integers(-40, 40, shape).astype(np.float32)
    flat = np.concatenate([np.zeros(4), data.ravel()])
    rows = tuple(range(len(shape) - 1))
    wide = data.astype(np.float64)
    answers = []
    for start in (4, 0, 1, 3):
        whole = fw.tensor(flat[4 - start :], dtype=dtype, device=quads)
        x = whole[start:].reshape(shape)
        for dims in (0, rows):
            total = x.sum(dims).numpy().astype(np.float64)
            rtol = 4e-3 if dtype == "bfloat16" else 1e-3
            np.testing.assert_allclose(total, wide.sum(dims), rtol=rtol, atol=0.5)
        np.testing.assert_array_equal(x.amax(0).numpy(), data.max(0))
        np.testing.assert_array_equal(x.any(0).numpy(), data.any(0))
        np.testing.assert_array_equal(x.argmin(0).numpy(), data.argmin(0))
        for found, wanted in zip(x.aminmax(dim=0), (data.min(0), data.max(0))):
            np.testing.assert_array_equal(found.numpy(), wanted)
        if dtype == "float32":
            spread = ops.var(x, rows).numpy()
            np.testing.assert_allclose(spread, wide.var(rows, ddof=1), rtol=1e-5)
        parts = x.sum(0), x.sum(rows), (x * 0.1).sum(0), x.count_nonzero(0)
        answers.append([each.numpy().tobytes() for each in parts])
    assert answers[1:] == answers[:1] * 3


@pytest.mark.usefixtures("any_columns")
def test_columns_are_read_by_fours(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="discrete")

    def macros(layout: Layout, dims: tuple[int, ...] = (0,)) -> set[str]:
        x = StridedSpec(layout.shape, float32, layout)
        return set(reduce_dispatches(info, sums(), x, dims)[0].defines)

    assert macros(Layout((8192, 768), (768, 1))) == {"COLUMN_QUADS"}
    assert macros(Layout((8192, 768), (772, 1), 3)) == {"COLUMN_QUADS", "APART"}
    assert macros(Layout((64, 8, 768), (6144, 768, 1)), (1,)) == {"COLUMN_QUADS"}
    for other in (
        Layout((8192, 770), (770, 1)),
        Layout((8192, 768), (769, 1)),
        Layout((8192, 16), (16, 1)),
        Layout((8192, 768), (1536, 2)),
    ):
        assert not {"COLUMN_QUADS", "APART"} & macros(other)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((5, 6, 4, 8), (0, 2, 3)), ((3, 4, 7, 12), (1, 3)), ((40, 3, 84), (0, 2))],
)
def test_runs_are_read_by_fours(
    quads: GpuDevice, shape: tuple[int, ...], dims: tuple[int, ...], start: int
) -> None:
    """Elements of an output that are several runs, aligned or not."""
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    flat = np.concatenate([np.zeros(start, np.float32), data.reshape(-1)])
    x = fw.tensor(flat, device=quads)[start:].reshape(shape)
    wide = data.astype(np.float64)
    np.testing.assert_allclose(x.sum(dims).numpy(), wide.sum(dims), atol=1e-4)
    np.testing.assert_allclose(x.var(dims).numpy(), wide.var(dims, ddof=1), rtol=1e-5)
    np.testing.assert_array_equal(x.amax(dims).numpy(), data.max(dims))
    total = x[..., :4].sum().numpy()
    np.testing.assert_allclose(total, wide[..., :4].sum(), atol=1e-4)
    norm = x.logsumexp(dims).numpy()
    np.testing.assert_allclose(norm, np.log(np.exp(wide).sum(dims)), rtol=1e-5)


def test_which_runs_are_read_by_fours(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="discrete")

    def macros(shape: tuple[int, ...], dims: tuple[int, ...]) -> Mapping[str, str]:
        return reduce_dispatches(info, sums(), placed(shape), dims)[0].defines

    assert "QUADS" in macros((64, 64, 3136), (0, 2))
    assert "QUADS" not in macros((64, 64, 3135), (0, 2))
    assert "QUADS" not in macros((64, 64, 49), (0, 2))


def test_views_that_begin_within_four(quads: GpuDevice) -> None:
    data = np.arange(1, 8 * 16 + 1, dtype=np.float32).reshape(8, 16)
    x = fw.tensor(data, device=quads)
    for view in (np.s_[:, 1:13], np.s_[1:, 4:12], np.s_[::2, :], np.s_[:, 3:]):
        np.testing.assert_array_equal(x[view].sum(1).numpy(), data[view].sum(1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(40_000,), (2, 36_004)])
def test_the_order_of_sums_is_the_same_wherever_they_begin(
    dtype: str, shape: tuple[int, ...], quads: GpuDevice
) -> None:
    data = np.random.default_rng(3).normal(size=shape).astype("f4")

    def found(start: int) -> list[bytes]:
        flat = fw.tensor(np.concatenate([np.zeros(start), data.ravel()]), device=quads)
        flat = flat.to(DTYPES[dtype])
        fw.eval(flat)  # What is computed on the way is summed up in another order.
        x = flat[start:].reshape(shape)
        answers = ops.sum(x, -1), ops.sum(x), ops.var(x, -1), ops.argmax(x, -1)
        return [each.numpy().tobytes() for each in answers]

    expected = found(0)
    assert all(found(start) == expected for start in (1, 2, 3))


@pytest.mark.core
def test_states_are_passed_on(device: vkbackend.Device) -> None:
    found = stateful("reduce/argminmax", float32, 2, {"values": "out"}, {})
    info = dataclasses.replace(device.info, kind="software")
    first, second = reduce_dispatches(info, found, placed((1 << 22,)), (0,))
    assert first.push["states"] == second.push["x"]
    assert (first.defines, second.defines) == ({"PARTIAL": "1"}, {"MERGE": "1"})


def test_operations_have_a_number() -> None:
    assert len(set(OPERATIONS)) == len(OPERATIONS)


def test_what_32_bits_do_not_reach_is_refused() -> None:
    wide = Layout((2, 2), (1 << 32, 1))
    with pytest.raises(ShapeError) as raised:
        need_countable("sum", StridedSpec((2, 2), float32, wide))
    assert str(raised.value) == (
        "sum: shape (2, 2) has 4 elements, which reach 4294967298 places far;"
        " devices take at most 4294967296 of each"
    )


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("count", [20, 100, 4096])
def test_groups_to_choose_from(
    device: vkbackend.Device, kind: str, rows: int, count: int
) -> None:
    info = dataclasses.replace(device.info, kind=kind)
    found = group_tiles(info, rows, count)
    usual = group_tile(info, rows, count, False)
    assert usual in found.values()
    assert len(found) == len(set(found.values()))
    # Nobody sums much longer alone than is usual, which is less exact.
    assert min(group for group, _, _ in found.values()) >= min(usual[0], count / 32)


FULL: dict[str, tuple[Callable[[fw.Tensor], fw.Tensor], Callable[..., Any]]] = {
    "sum": (fw.sum, lambda x: x.sum()),
    "argmax": (fw.argmax, lambda x: x.argmax()),
    "var": (fw.var, lambda x: x.var(ddof=1)),
    "dot": (lambda x: fw.dot(x, x), lambda x: x @ x),
    "logsumexp": (lambda x: fw.logsumexp(x, 0), lambda x: np.log(np.exp(x).sum())),
}


@pytest.mark.parametrize("name", FULL)
def test_any_number_of_elements_by_vec4(name: str, quads: GpuDevice) -> None:
    """What is left beyond the last four counts once, also in many workgroups."""
    ours, expected = FULL[name]
    drawn = np.random.default_rng(0).standard_normal((1 << 17) + 9).astype("f4")
    drawn[-4:] += 9  # so that each counts
    for count in (4, 5, 7, 1027, (1 << 17) + 5):
        for offset in (0, 4, 3):
            part = drawn[len(drawn) - count - offset : len(drawn) - offset]
            held = fw.tensor(np.concatenate([drawn[:offset], part]), device=quads)
            found = ours(held[offset:]).numpy()
            np.testing.assert_allclose(found, expected(part.astype("f8")), rtol=1e-4)
