"""Programs over rows in, GLSL out: the golden files in `tests/data/rows`.

Then kernels of rows with uniform vector loads: which, their text, and their results.

To write the shaders anew after a change of the emitter, and then read the difference,
run

    python -m tests.framework.codegen.glsl.test_rowwise
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.codegen import rows
from tests.framework.codegen.rows import GPU, SOFTWARE, kernel, program
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float16, float32
from vkbackend.framework.codegen import rowwise_kernel
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.lower import (
    MIN_UNIFORM_LOAD_ELEMENTS,
    LoweredKernel,
)
from vkbackend.framework.codegen.rowwise_kernel import MAX_BLOCK_COLUMNS, build_rows
from vkbackend.framework.graph.compute_graph import Node
from vkbackend.shader import compiler

FOLDER = Path(__file__).resolve().parents[3] / "data" / "rows"

PROGRAMS = {
    "softmax": program(rows.softmax(), GPU),
    "softmax_software": program(rows.softmax(), SOFTWARE),
    "softmax_shared": program(rows.softmax(), rows.UNLIKE),
    "softmax_long": program(rows.softmax(columns=65536), GPU),
    "softmax_half": program(rows.softmax(64, 40, float16), GPU, wanted=5),
    "apart": program(rows.apart_from_greatest(), GPU),
    "normalised": program(rows.normalised(), GPU),
    "odd": program(rows.odd(), GPU, wanted=2),
    "variance": program(rows.mean_and_variance(), SOFTWARE),
    "counts": program(rows.counts(), SOFTWARE, wanted=2),
}


def test_each_program_has_its_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_shader(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert emit(PROGRAMS[name]) == text


@pytest.mark.parametrize("moved_in_64_bits", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shader_is_valid(name: str, moved_in_64_bits: bool) -> None:
    source = emit(PROGRAMS[name], moved_in_64_bits)
    words = compiler.compile_glsl(source, name=f"fused/{name}")
    assert compiler.validate_spirv(words) is None


def test_rows_that_fit_are_kept_in_registers() -> None:
    assert "kept_x0" in emit(PROGRAMS["softmax"])
    assert "kept" not in emit(PROGRAMS["softmax_long"])
    # An invocation alone waits for nobody.
    assert "barrier" in emit(PROGRAMS["softmax"])
    assert "barrier" not in emit(PROGRAMS["softmax_software"])


def built(nodes: list[Node], lanes: int = 8, wanted: int = 1) -> LoweredKernel:
    ids = {id(node.outputs[0]) for node in nodes[-wanted:]}
    return build_rows(nodes, ids, SOFTWARE, lanes=lanes)


def test_large_rows_of_whole_vectors_are_blocks() -> None:
    made = built(rows.softmax(1024, 1024))
    assert (made.program.lanes, made.workgroup, made.grid) == (8, 32, (256, 1, 1))
    assert made.program.rounds == 1024 // (4 * 8)
    assert made.program.exact
    assert dict(made.words)["digit[5]"] == 5


@pytest.mark.parametrize(
    ("count", "columns", "dtype"),
    [
        (MIN_UNIFORM_LOAD_ELEMENTS // 1024 - 1, 1024, float32),
        (1024, MAX_BLOCK_COLUMNS + 32, float32),
        (8192, 96, float32),
        (1024, 1016, float32),
    ],
    ids=["few", "long", "short", "ragged"],
)
def test_other_rows_are_walked_as_before(
    count: int, columns: int, dtype: object
) -> None:
    nodes = rows.softmax(count, columns, dtype)
    made, before = built(nodes), kernel(nodes, SOFTWARE)
    assert (made.program.lanes, made.program) == (0, before.program)
    assert made.words == before.words


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_shader_is_valid_and_has_no_loop(lanes: int) -> None:
    nodes = rows.softmax(1024, 128)
    made = built(nodes, lanes, wanted=3)
    source = emit(made.program, True)
    assert compiler.validate_spirv(compiler.compile_glsl(source, name="rows")) is None
    main = source[source.index("void main()") :]
    assert "pick(" in main
    assert "for (" not in main


@pytest.fixture
def blocks(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, with few rows in blocks too."""
    monkeypatch.setattr(rowwise_kernel, "MIN_UNIFORM_LOAD_ELEMENTS", 4096)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


SHAPES = [(67, 128), (40, 320), (33, 1024)]


@pytest.mark.sampled(2)
@pytest.mark.core
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(blocks: GpuDevice, shape: tuple[int, int]) -> None:
    data = np.random.default_rng(1).uniform(-9, 9, shape).astype(np.float32)
    data[3, 5], data[4, 0], data[5] = -np.inf, np.nan, -np.inf
    x = fw.tensor(data, device=blocks)
    high = x.amax(1, keepdim=True)
    powers = (x - high).exp()
    sums = powers.sum(1, keepdim=True)
    out = powers / sums
    fw.eval(high, sums, out)
    with np.errstate(invalid="ignore"):
        wide = data.astype(np.float64)
        expected = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_array_equal(high.numpy(), data.max(1, keepdims=True))
    np.testing.assert_allclose(sums.numpy(), expected.sum(1, keepdims=True), 2e-6)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(out.numpy(), expected, 2e-6, 1e-30)


@pytest.mark.sampled(2)
@pytest.mark.core
@pytest.mark.parametrize("shape", SHAPES)
def test_normalised_with_weights(blocks: GpuDevice, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    data = rng.standard_normal(shape, dtype=np.float32)
    weight, bias = rng.standard_normal((2, shape[1]), dtype=np.float32)
    x, w, b = (fw.tensor(each, device=blocks) for each in (data, weight, bias))
    apart = x - x.mean(1, keepdim=True)
    scale = (apart.square().mean(1, keepdim=True) + 1e-5).rsqrt()
    wide = data.astype(np.float64)
    wide -= wide.mean(1, keepdims=True)
    wide /= np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    expected = wide * weight + bias
    np.testing.assert_allclose((apart * scale * w + b).numpy(), expected, 4e-6, 4e-6)
    found = ops.layer_norm(x, shape[1], w, b)
    np.testing.assert_allclose(found.numpy(), expected, 4e-6, 4e-6)


@pytest.mark.core
def test_a_row_for_all_rows_and_an_element_for_each(blocks: GpuDevice) -> None:
    rng = np.random.default_rng(4)
    data = rng.standard_normal((64, 128), dtype=np.float32)
    each = rng.standard_normal((64, 1), dtype=np.float32)
    x, shift = fw.tensor(data, device=blocks), fw.tensor(each, device=blocks)
    row = x[10]
    found = (x * shift + row).sum(1)
    expected = (data.astype(np.float64) * each + data[10]).sum(1)
    np.testing.assert_allclose(found.numpy(), expected, 1e-5, 1e-5)


def regenerate() -> None:
    """Write every golden file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, each in PROGRAMS.items():
        (FOLDER / f"{name}.txt").write_text(emit(each), encoding="utf-8")


if __name__ == "__main__":
    regenerate()
