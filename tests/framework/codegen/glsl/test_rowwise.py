"""Programs over rows in, GLSL out: the golden files in `tests/data/rows`.

To write the shaders anew after a change of the emitter, and then read the difference,
run

    python -m tests.framework.codegen.glsl.test_rowwise
"""

from pathlib import Path

import pytest

from tests.framework.codegen import rows
from tests.framework.codegen.rows import GPU, SOFTWARE, program
from vkbackend.framework.base.dtype import float16
from vkbackend.framework.codegen.glsl.rowwise import emit_any, emit_rows
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
    assert emit_rows(PROGRAMS[name]) == text


@pytest.mark.parametrize("moved_in_64_bits", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shader_is_valid(name: str, moved_in_64_bits: bool) -> None:
    source = emit_any(PROGRAMS[name], moved_in_64_bits)
    words = compiler.compile_glsl(source, name=f"fused/{name}")
    assert compiler.validate_spirv(words) is None


def test_rows_that_fit_are_kept_in_registers() -> None:
    assert "kept_x0" in emit_rows(PROGRAMS["softmax"])
    assert "kept" not in emit_rows(PROGRAMS["softmax_long"])
    # An invocation alone waits for nobody.
    assert "barrier" in emit_rows(PROGRAMS["softmax"])
    assert "barrier" not in emit_rows(PROGRAMS["softmax_software"])


def regenerate() -> None:
    """Write every golden file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, each in PROGRAMS.items():
        (FOLDER / f"{name}.txt").write_text(emit_rows(each), encoding="utf-8")


if __name__ == "__main__":
    regenerate()
