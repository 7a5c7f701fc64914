"""Lines of programs written for PyTorch run, with the library's name for its."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.absent import absent
from vkbackend.framework.base.late_modules import resolved

LINES = Path(__file__).parents[2] / "data" / "pytorch_lines.txt"
IMPORT = re.compile(r"\b(from|import) torch\b")


def program(line: str) -> str:
    if line.startswith("@"):
        line += "\ndef function(x): return x"
    return IMPORT.sub(r"\1 vkbackend.framework", line)


def wrong_lines() -> list[str]:
    """Return the lines that raise, and what they raise; they change global settings."""
    wrong = []
    for line in LINES.read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(compile(program(line), line, "exec"), {"torch": fw})
            except Exception as error:
                wrong.append(f"{line}: {error!r}")
    return wrong


def test_lines_run() -> None:
    ask = f"from {__name__} import wrong_lines; print(wrong_lines())"
    found = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=LINES.parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"


def test_names_are_the_same_objects() -> None:
    from vkbackend.framework.nn.modules.batchnorm import _BatchNorm
    from vkbackend.framework.utils.data.dataloader import default_collate

    assert isinstance(fw.nn.BatchNorm2d(2), _BatchNorm)
    assert default_collate is fw.data.default_collate
    assert "Linear" in dir(fw.nn.modules.linear)


def test_what_is_absent_says_so_when_it_is_called() -> None:
    with pytest.raises(NotImplementedError, match=r"onnx.export is not here: save"):
        fw.onnx.export(None, None)
    assert not isinstance(fw.nn.Identity(), absent("fx", "GraphModule", "no"))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fw.onnx.nothing  # noqa: B018 - it raises
    with pytest.raises(ModuleNotFoundError):
        import vkbackend.framework.nn.modules.nothing  # noqa: F401


def test_importing_makes_no_address() -> None:
    program = (
        "import sys, vkbackend.framework as fw\n"
        "print([name for name in sys.modules if type(sys.modules[name]).__name__ =="
        " 'Address' or name.startswith('vkbackend.framework.distributed')])"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_resolved_takes_modules_and_names() -> None:
    assert resolved("nn") is fw.nn
    assert resolved(":ones") is fw.ones
