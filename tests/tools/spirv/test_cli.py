import io
import json
import re
from pathlib import Path

import pytest

import vkbackend
from tests import hostile
from vkbackend.tools.spirv.cli import main

from .shaders import HEAD, SHARED, compiled, main_of

FAULT = "for (uint k = 0; k < push.n; ++k) push.y.at[i] += push.x.at[k];"


def run(*arguments: str, expected: int = 0) -> str:
    """Return what the command prints."""
    output = io.StringIO()
    assert main(arguments, output) == expected
    return output.getvalue()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    module, source = tmp_path / "one.spv", tmp_path / "two.comp"
    module.write_bytes(compiled(SHARED))
    source.write_text(f"{HEAD}void main() {{\n{FAULT}\n}}\n")
    return str(module), str(source)


def test_report(files: tuple[str, str]) -> None:
    text = run(*files)
    assert text.startswith("one\n")
    assert "entry point  main" in text


def test_json(files: tuple[str, str]) -> None:
    one, two = json.loads(run(*files, "--json"))
    assert one["name"] == "one"
    assert two["push"]["size"] == 24


def test_constants_and_macros(files: tuple[str, str]) -> None:
    (found,) = json.loads(run(files[0], "--json", "-c", "ROWS=0x10"))
    assert found["shared"]["size"] == 128
    assert "found" not in run(files[1], "-D", "UNUSED=1")


def test_disassembly(files: tuple[str, str]) -> None:
    text = run(files[1], "--dis")
    assert f"two.comp:12  {FAULT}" in text
    assert "OpCapability Shader" in text


def test_validation(files: tuple[str, str], tmp_path: Path) -> None:
    assert "valid" in run(files[0], "--validate")
    broken = tmp_path / "broken.spv"
    broken.write_bytes(main_of("push.y.at[i] = 1.0;").replace(b"\x40\0\0\0", b"\0" * 4))
    said = json.loads(run(str(broken), "--validate", "--json", expected=1))
    assert said["broken"]


def test_diff(files: tuple[str, str]) -> None:
    text = run("diff", *files)
    assert text.startswith("one -> ")
    assert "classes.barrier" in text
    changes = json.loads(run("diff", "--json", *files))
    assert {"where": "classes.barrier", "old": 1, "new": None} in changes


def test_lint(files: tuple[str, str]) -> None:
    text = run("lint", files[1], expected=1)
    assert "two.comp:12: a loop loads float after float" in " ".join(text.split())
    assert run("lint", files[0]) == "one: clean\n"
    found = json.loads(run("lint", "--json", files[1], expected=1))
    assert [row["rule"] for row in found[files[1]]] == ["scalar-load"]


def test_rules() -> None:
    assert "bank-conflict" in run("lint", "--rules")
    assert len(json.loads(run("lint", "--rules", "--json"))) == 9


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "vkspirv: no shader is named"),
        (("none.spv",), "vkspirv: none.spv: cannot be read"),
        (("diff", "matmul/gemm_tiled"), "diff: 1 shaders are named; there must be two"),
        (("matmul/gemm_tiled", "-c", "BLOK_M=3"), "constants: unknown: BLOK_M"),
    ],
)
def test_mistakes(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*arguments, expected=2)
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("setting", ["ROWS", "=3", "ROWS=abc"])
def test_settings(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["matmul/gemm_tiled", "-c", setting])
    assert repr(setting) in capsys.readouterr().err


@pytest.mark.device
def test_device(files: tuple[str, str], device: vkbackend.Device) -> None:
    selected = ["--device", device.name]
    text = run(files[0], *selected)
    assert f"What the driver of {device.info.name} says" in text
    (found,) = json.loads(run(files[0], *selected, "--json"))
    assert found["device"] == device.info.name
    assert found["shared"]["limit"] == device.info.max_shared_memory
    assert all(row["present"] for row in found["capabilities"])
    assert isinstance(found["executables"], list)


@pytest.mark.device
@pytest.mark.parametrize("name", ["named buffer", "sampler2D", "shared uint[1048576]"])
def test_a_driver_is_not_given_what_it_cannot_take(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.comp"
    source.write_text(hostile.SOURCES[name])
    run("--device", "--", str(source), expected=2)
    assert re.search("in a descriptor|shared memory is too", capsys.readouterr().err)
    # Without a device it is looked at all the same.
    assert "entry point" in run(str(source))


@pytest.mark.device
def test_a_driver_is_not_given_a_module_that_is_not_valid(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--device", "--", files[0])
    broken = tmp_path / "broken.spv"
    broken.write_bytes(main_of("push.y.at[i] = 1.0;").replace(b"\x40\0\0\0", b"\0" * 4))
    run("--device", "--", str(broken), expected=2)
    assert "broken: the module is not valid: " in capsys.readouterr().err


def test_numbers_of_files_that_there_are_not(tmp_path: Path) -> None:
    source = tmp_path / "a.comp"
    source.write_text(f"{HEAD}#line 7 99\nvoid main() {{\n{FAULT}\n}}\n")
    assert f"a.comp:8  {FAULT}" in run(str(source), "--dis")
