"""Names that other packages use: most are here, and the others raise by name."""

import pytest

from vkbackend.tools import used_names
from vkbackend.tools.used_names import HERE, MISSING, RAISES, Used

# They may only grow.
LEAST_WORKS, LEAST_IMPORTS = 0.965, 0.985


def test_shares() -> None:
    rows = used_names.used()
    works, imports = used_names.shares(rows)
    others = [
        f"{row.name}: {row.why or row.state}" for row in rows if row.state != HERE
    ]
    assert works >= LEAST_WORKS, others
    assert imports >= LEAST_IMPORTS, others
    assert all(row.why for row in rows if row.state == RAISES)


def test_states(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"nn.Linear": 2, "onnx.export": 3, "nn.nothing": 4, "nn.Module.nothing": 2}
    monkeypatch.setattr(used_names, "names", lambda: listed)
    rows = used_names.used()
    assert [(row.name, row.state) for row in rows] == [
        ("nn.nothing", MISSING),
        ("onnx.export", RAISES),
        ("nn.Linear", HERE),
        ("nn.Module.nothing", MISSING),
    ]
    assert used_names.shares(rows) == (0.25, 0.5)
    assert "| `onnx.export` | 3 |" in used_names.section(lambda _: "no")
    assert Used("nn.nothing", 4, MISSING) in rows


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert used_names.main([]) == 0
    assert "can be imported" in capsys.readouterr().out
