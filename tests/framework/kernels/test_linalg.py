"""Launches of triangular systems and Cholesky factors."""

import dataclasses

import numpy as np
import pytest

import vkbackend
from tests.kernel_run import linear, run
from vkbackend.framework.base.dtype import DType, float32, float64, int32
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.ir.kernel_call import MAX_GROUPS, Dispatch, StridedSpec
from vkbackend.framework.kernels.linalg import (
    cholesky_dispatches,
    exponential_dispatch,
    factorises,
    lu_dispatches,
    order_dispatch,
    panel_columns,
    qr_columns,
    qr_dispatches,
    small_solve_dispatch,
    solution_dispatches,
    solves_triangles,
    svd_dispatch,
    triangular_dispatches,
    unpack_dispatch,
)

ROOTS = """#version 460
#extension GL_EXT_buffer_reference : require
#define DOUBLE
#include "lib/index.glsl"
#include "linalg/real.glsl"
#include "linalg/roots.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Reals {
    double at[];
};
layout(push_constant) uniform Push { Reals x; Reals y; Reals out_; uint count; } push;
void main() {
    uint i = linear_invocation();
    if (i >= push.count) return;
    double x = push.x.at[i], y = push.y.at[i], root, inverse;
    roots(x, root, inverse);
    push.out_.at[4 * i] = root;
    push.out_.at[4 * i + 1] = inverse;
    push.out_.at[4 * i + 2] = reciprocal(y);
    push.out_.at[4 * i + 3] = quotient(x, y, reciprocal(y));
}
"""


def matrices(*shape: int) -> TensorSpec:
    return TensorSpec(shape, float32)


def test_columns_and_matrices_have_workgroups() -> None:
    a, b = matrices(128, 70, 70), matrices(128, 70, 33)
    (step,) = triangular_dispatches(a, b, True, False)
    assert step.grid == (2, 1, 128)
    assert (step.push["n"], step.push["columns"]) == (70, 33)
    assert (step.constants["UPPER"], step.constants["UNIT"]) == (1, 0)


def test_few_systems_are_solved_in_steps() -> None:
    a, b = matrices(5, 298, 298), matrices(5, 298, 33)
    steps = triangular_dispatches(a, b, True, False)
    assert [step.push["first"] for step in steps] == [0, 64, 128, 192, 256]
    grids = [(2, 4, 5), (2, 3, 5), (2, 2, 5), (2, 1, 5), (2, 1, 5)]
    assert [step.grid for step in steps] == grids
    assert [step.constants["SOURCE"] for step in steps] == [1, 0, 0, 0, 0]
    assert {step.kernel for step in steps} == {"linalg/solve_step"}
    for rows in (32, 256):
        a, b = matrices(1, rows, rows), matrices(1, rows, 9)
        (one,) = triangular_dispatches(a, b, True, True)
        assert one.kernel == "linalg/triangular_solve"


def test_each_column_of_small_systems_has_an_invocation() -> None:
    a, b = matrices(500, 9, 9), matrices(500, 9, 3)
    (step,) = triangular_dispatches(a, b, True, False)
    assert step.kernel == "linalg/triangular_rows"
    assert (step.push["numel"], step.defines["ROWS"]) == (1500, "16")
    (step,) = triangular_dispatches(matrices(1, 1, 1), matrices(1, 1, 1), True, True)
    assert step.defines["ROWS"] == "4"
    (step,) = triangular_dispatches(matrices(1, 17, 17), matrices(1, 17, 1), True, True)
    assert step.kernel == "linalg/triangular_solve"


def test_factors_are_substituted_twice() -> None:
    b = matrices(2, 70, 3)
    lower, _, upper, _ = solution_dispatches(b, True, False)
    assert (lower.constants["UPPER"], lower.constants["UNIT"]) == (0, 1)
    assert (lower.constants["SOURCE"], upper.constants["UPPER"]) == (2, 1)
    first, _, second, _ = solution_dispatches(b, True, True)
    assert (first.constants["TRANSPOSED"], first.constants["UNIT"]) == (1, 0)
    assert (second.constants["UNIT"], second.constants["TARGET"]) == (1, 1)
    assert solution_dispatches(b, False, False)[0].constants["SOURCE"] == 3


def test_each_small_system_has_a_workgroup() -> None:
    step = small_solve_dispatch(matrices(7, 12, 100), True)
    assert (step.grid, step.constants["WIDTH"]) == ((7, 1, 3), 48)
    assert (step.constants["IDENTITY"], step.constants["LOCAL_X"]) == (0, 64)
    sizes = [small_solve_dispatch(matrices(1, n, n), True) for n in (8, 24, 25)]
    assert [each.constants["LOCAL_X"] for each in sizes] == [32, 128, 256]
    with pytest.raises(AssertionError, match="no small matrix"):
        small_solve_dispatch(matrices(1, 49, 1), True)


def test_small_matrices_have_a_workgroup_and_large_ones_panels() -> None:
    (step,) = cholesky_dispatches(matrices(7, 12, 12))
    assert step.grid == (2, 1, 1)
    assert (step.constants["N"], step.defines["ROWS"]) == (12, "16")
    assert cholesky_dispatches(matrices(7, 33, 33))[0].grid == (7, 1, 1)
    assert cholesky_dispatches(matrices(70, 5, 5))[0].grid == (9, 1, 1)
    first, second, last = cholesky_dispatches(matrices(3, 96, 96))
    assert (first.kernel, first.grid) == ("linalg/cholesky_step", (1, 1, 3))
    assert (second.grid, last.grid) == ((1, 2, 3), (1, 1, 3))
    assert [step.constants["FROM_A"] for step in (first, second, last)] == [1, 1, 0]
    assert [step.push["begun"] for step in (first, second, last)] == [0, 32, 64]
    assert cholesky_dispatches(matrices(1, 200, 200))[1].grid == (3, 4, 1)


def test_reflections_by_panels(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024)
    shape = (3, 170, 150)
    a = StridedSpec(shape, float32, Layout.contiguous(shape))
    steps = qr_dispatches(info, a)[1:]
    names = [step.kernel.removeprefix("linalg/qr_") for step in steps]
    applied = ["gram", "solve", "apply"]
    block = (["panel", *applied] * 3 + ["panel"]) + applied
    last = ["panel", *applied, "panel"]
    assert names == block * 2 + last + applied * 3
    panels = [step for step in steps if step.kernel == "linalg/qr_panel"]
    assert [step.push["begun"] for step in panels] == [*range(0, 150, 16)]
    assert [step.constants["LOCAL_X"] for step in panels[::4]] == [256, 128, 64]
    # Of the first panel to the rest of its block, and of the block to what is behind.
    inner, outer = steps[1:4], steps[13:16]
    assert [step.push["begun"] for step in (*inner, *outer)] == [0] * 6
    assert {step.defines["VECTORS"] for step in inner} == {"16"}
    assert {step.defines["VECTORS"] for step in outer} == {"64"}
    assert (inner[0].push["first"], inner[0].push["last"]) == (16, 64)
    assert (outer[0].push["first"], outer[0].push["last"]) == (64, 150)
    assert [step.grid for step in inner] == [(2, 2, 3), (3, 1, 3), (1, 3, 3)]
    backward = [
        step.push["begun"] for step in steps if not step.constants.get("FORWARD", 1)
    ]
    assert backward == [128] * 3 + [64] * 3 + [0] * 3
    assert [qr_columns(info, float32, rows) for rows in (9, 2049, 8193)] == [16, 8, 0]
    assert qr_columns(info, float64, 9) == 8


def test_few_columns_are_one_product_of_reflections(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024)
    for columns, vectors in ((3, "16"), (20, "32"), (64, "64")):
        shape = (1, 1000, columns)
        a = StridedSpec(shape, float32, Layout.contiguous(shape))
        gram, solve, apply = qr_dispatches(info, a)[-3:]
        assert {each.defines["VECTORS"] for each in (gram, solve, apply)} == {vectors}
        assert (gram.grid, gram.push["rows"]) == ((2, 8, 1), 128)
        assert (solve.push["parts"], solve.push["width"]) == (8, 128)


def test_each_order_of_rows_has_a_workgroup() -> None:
    step = order_dispatch(TensorSpec((7, 3), int32), 12)
    assert (step.grid, step.constants["ROWS"]) == ((7, 1, 1), 12)
    assert unpack_dispatch(matrices(5, 70, 70)).push["numel"] == 5 * 70 * 70


def test_wide_matrices_are_turned() -> None:
    step = svd_dispatch(matrices(5, 7, 24))
    assert (step.grid, step.constants["TURNED"]) == ((5, 1, 1), 1)
    assert (step.constants["M"], step.constants["N"]) == (24, 7)
    with pytest.raises(AssertionError, match="no small matrix"):
        svd_dispatch(matrices(5, 7, 49))


def test_gradients_of_exponentials_are_blocks_of_larger_ones() -> None:
    step = exponential_dispatch(matrices(5, 24, 24), True)
    assert step.grid == (5, 1, 1)
    assert (step.constants["N"], step.constants["DEGREE"]) == (48, 16)
    assert exponential_dispatch(matrices(5, 24, 24), False).constants["N"] == 24
    with pytest.raises(AssertionError, match="too many"):
        exponential_dispatch(matrices(5, 25, 25), True)


def test_panels_one_after_the_other(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024)

    def steps(*shape: int, dtype: DType = float32) -> list[Dispatch]:
        layout = Layout.contiguous(shape)
        return lu_dispatches(info, StridedSpec(shape, dtype, layout))

    copy, panel, rows, update, last, before = steps(3, 28, 28, dtype=float64)
    assert (copy.copies, "WHOLE" in panel.defines) == (("a", "factors"), False)
    assert (panel.kernel, panel.grid) == ("linalg/lu_panel", (3, 1, 1))
    assert (panel.constants["LOCAL_X"], panel.defines["ROWS"]) == (32, "1")
    assert (rows.kernel, rows.grid) == ("linalg/lu_rows", (1, 1, 3))
    assert (update.kernel, update.grid) == ("linalg/lu_update", (1, 1, 3))
    assert (last.kernel, last.push["begun"]) == ("linalg/lu_panel", 16)
    assert before.kernel == "linalg/lu_rows"
    assert last.constants["LOCAL_X"] == 32
    for rows_of_one in (20, 32):
        (whole,) = steps(1, rows_of_one, rows_of_one)
        assert (whole.push["a"], whole.defines["WHOLE"]) == ("a", "1")
    assert steps(1, 60, 60)[1].constants["LOCAL_X"] == 64
    starts = [steps(1, n, n)[1].defines.get("VECTORS") for n in (60, 62)]
    assert starts == ["1", None]
    sizes = [(n, steps(1, n, n)[1]) for n in (200, 512, 1024, 2050)]
    assert [
        (n, each.constants["LOCAL_X"], each.defines["ROWS"]) for n, each in sizes
    ] == [
        (200, 256, "1"),
        (512, 512, "1"),
        (1024, 256, "4"),
        (2050, 1024, "3"),
    ]
    assert [panel_columns(float32, n) for n in (4, 20, 512, 513)] == [8, 24, 32, 16]
    assert [panel_columns(float64, n) for n in (4, 12, 17)] == [8, 16, 16]
    assert factorises(info, 8192)
    assert not factorises(info, 8193)


def test_subgroups_find_pivots_where_they_are_quick(device: vkbackend.Device) -> None:
    sizes = dict.fromkeys(
        ("subgroup_size", "min_subgroup_size", "max_subgroup_size"), 64
    )
    info = dataclasses.replace(device.info, max_workgroup_invocations=1024, **sizes)
    target = dataclasses.replace(device.info.target, fast_shuffles=True)
    info.__dict__["target"] = target
    a = StridedSpec((1, 70, 70), float32, Layout.contiguous((1, 70, 70)))
    panels = lu_dispatches(info, a)[1::3]
    assert [each.defines.get("SUBGROUPS") for each in panels] == ["2", "1", None]


def test_more_matrices_than_workgroups(device: vkbackend.Device) -> None:
    assert solves_triangles(device.info, float32, MAX_GROUPS, 32 * MAX_GROUPS)
    assert not solves_triangles(device.info, float32, MAX_GROUPS + 1, 1)
    assert not solves_triangles(device.info, float32, 1, 32 * MAX_GROUPS + 1)
    assert not solves_triangles(device.info, int32, 1, 1)
    single = dataclasses.replace(device.info, supported=frozenset())
    assert not solves_triangles(single, float64, 1, 1)
    few = dataclasses.replace(device.info, max_workgroup_invocations=128)
    assert not solves_triangles(few, float32, 1, 1)
    small = dataclasses.replace(device.info, max_shared_memory=1 << 14)
    assert not solves_triangles(small, float32, 1, 1)


def test_roots_and_quotients_of_float64(device: vkbackend.Device) -> None:
    if not device.info.shader_float64:
        pytest.skip("no float64")
    rng = np.random.default_rng(0)
    count = 4096
    size = rng.uniform(-1022, 1023, count)
    x = np.exp2(np.concatenate([size, rng.uniform(-3, 3, count)]))
    y = np.roll(x, 7) * rng.choice([-1, 1], 2 * count)
    edges = [0.0, 1.0, 2.0, 4.0, 2.0**-1022, 5e-324, 1e-310, 1.7e308, np.inf, 2.0**1023]
    x[:10], y[-10:] = edges, edges
    x[10:12] = -1.0, np.nan
    (out,) = run(
        device,
        "roots",
        linear(-(-len(x) // 64)),
        {"out_": ((len(x), 4), "f8")},
        {"LOCAL_X": 64},
        {"x": x, "y": y, "count": len(x)},
        source=ROOTS,
    )
    with np.errstate(all="ignore"):
        root = np.sqrt(x)
        wanted = np.stack([root, 1 / root, 1 / y, x / y], 1)
        sizes = np.abs(np.log2(np.abs(y)))
    # Where quotients, and what is left of them, are normal numbers
    is_inside = np.isfinite(wanted) & (np.abs(wanted) > 1e-290)
    is_inside[:, 3] &= (sizes < 1e3) & (x < 1e300)
    assert is_inside.sum(0).min() > count
    found, right = out[is_inside], wanted[is_inside]
    assert np.abs((found - right) / np.spacing(np.abs(right))).max() <= 2
    for at in (0, 8, 10, 11):
        np.testing.assert_array_equal(out[at, :2], wanted[at, :2])
