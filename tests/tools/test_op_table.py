"""The table of operations: its cells, and that it is current."""

from pathlib import Path

import pytest

from vkbackend.framework.base.dtype import ANY, BOOL, FLOAT, INTEGER, float32, int32
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.tools import op_table


@pytest.mark.checkout
def test_it_is_current() -> None:
    assert op_table.TABLE.read_text(encoding="utf-8") == op_table.render()


@pytest.mark.checkout
def test_each_operation_has_a_row_with_a_kernel() -> None:
    rows = [line for line in op_table.render().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert [row[0].strip("`") for row in cells] == sorted(REGISTRY)
    assert [row for row in cells if not row[5]] == []


@pytest.mark.checkout
def test_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(op_table, "TABLE", tmp_path / "OPS.md")
    assert op_table.main(["--check"]) == 1
    assert "is not current" in capsys.readouterr().out
    assert op_table.main([]) == 0
    assert op_table.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("taken", "text"),
    [
        (ANY, "any"),
        ((*INTEGER, *BOOL), "integer, bool"),
        ((int32, float32), "int32, float32"),
        ({"x": FLOAT, "y": FLOAT}, "float"),
        ({"x": ANY, "index": (int32,)}, "x: any; index: int32"),
    ],
)
def test_dtypes(taken: object, text: str) -> None:
    assert op_table.dtypes_of(taken) == text


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("add", "fused"),
        ("permute", "view"),
        ("std", "other operations"),
        ("sum", "`reduce/reduce`"),
    ],
)
def test_kernel(name: str, kernel: str) -> None:
    assert op_table.kernel_of(REGISTRY[name]) == kernel


def test_public_functions() -> None:
    served = op_table.users()
    assert "log_softmax" in served["softmax"]
    assert served["softmax_grad"] == ["*backward*"]
    assert op_table.listed("f", "afbcde") == "`f`, `a`, `b`, `c`, ..."
    assert op_table.listed("f", []) == "internal"
