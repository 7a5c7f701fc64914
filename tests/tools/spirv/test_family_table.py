"""The table of what training steps choose on AMD GPUs."""

from types import SimpleNamespace
from typing import Any

import pytest

from vkbackend.tools.spirv import family_table
from vkbackend.tools.spirv.family_table import Figures, chosen, figures, main, render

# Subgroups of a kernel that a SIMD unit holds at once, at least.
LEAST, LEAST_OF_ATTENTION = 4, 2


def row(name: str, registers: int, occupancy: int, spills: int = 0) -> dict[str, Any]:
    values = {"VGPRs": registers, "Subgroups per SIMD": occupancy}
    values |= {"Spilled VGPRs": spills, "Spilled SGPRs": 0}
    statistics = [{"name": key, "value": value} for key, value in values.items()]
    return {"name": name, "executable": {"statistics": statistics}}


def test_the_worst_of_the_variants() -> None:
    rows = [row("fused/a x=1", 24, 16), row("fused/b", 48, 12)]
    rows += [row("matmul/gemm_simt+add K=1", 200, 6), row("matmul/gemm_simt", 100, 8)]
    assert figures(rows) == {
        "generated": Figures(48, 12, 0),
        "matmul/gemm_simt": Figures(200, 6, 0),
    }


def test_the_page() -> None:
    found = {("navi31", "float32"): {"a": Figures(24, 16, 0), "b": Figures(9, 4, 3)}}
    text = render(found, "Mesa 1")
    assert "the compiler of Mesa 1 says" in text
    assert "| `a` | 24, 16 |" in text
    assert text.endswith("Spilled registers: b on navi31 in float32.\n")


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(family_table, "chosen", lambda *_: [row("matmul/gemv", 24, 16)])
    none = SimpleNamespace(driver_info="Mesa 1")
    monkeypatch.setattr(family_table, "device_info", lambda _: none)
    assert main(["--print"]) == 0
    said = capsys.readouterr().out
    assert said.count("`matmul/gemv` | 24, 16 | 24, 16") == len(family_table.DTYPES)


@pytest.mark.sampled(16)
@pytest.mark.device
@pytest.mark.usefixtures("radv")
@pytest.mark.parametrize("dtype", family_table.DTYPES)
@pytest.mark.parametrize("family", ["vega10", "navi21", "navi31", "gfx1201"])
def test_what_a_training_step_chooses(family: str, dtype: str) -> None:
    rows = chosen(family, dtype)
    assert len(rows) > 60
    assert [each["name"] for each in rows if each["problem"]] == []
    for name, taken in figures(rows).items():
        assert taken.spills == 0, name
        attention = name.startswith("attention/")
        assert taken.occupancy >= (LEAST_OF_ATTENTION if attention else LEAST), name
