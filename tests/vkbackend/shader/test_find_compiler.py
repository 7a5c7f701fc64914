import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vkbackend import config
from vkbackend.errors import NoCompilerError
from vkbackend.shader.find_compiler import _find, compiler, describe, open_library
from vkbackend.shader.glslang import ExecutableCompiler, SlangGlslang

pytestmark = pytest.mark.null


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(config.GLSLANG.name, raising=False)
    _find.cache_clear()
    yield
    _find.cache_clear()


@pytest.fixture
def path_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the one folder of PATH on a machine without compiler libraries."""
    monkeypatch.setattr("vkbackend.shader.find_compiler._slangpy_libraries", list)
    monkeypatch.setattr(
        "vkbackend.shader.find_compiler._shaderc_libraries", lambda: ("libno.so",)
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.slangpy
def test_slangpy_comes_first_and_is_not_imported() -> None:
    code = (
        "import sys; from vkbackend.shader.find_compiler import compiler, describe;"
        " print(describe(compiler())); assert 'slangpy' not in sys.modules"
    )
    run = (sys.executable, "-c", code)
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    found = compiler()
    assert isinstance(found, SlangGlslang)
    assert "slangpy" in found.path
    assert said.strip() == f"glslang {found.version} at {found.path}"
    assert compiler() is found


def test_path_is_the_last_resort(path_folder: Path) -> None:
    script(path_folder / "glslc", "echo shaderc v2023.2")
    assert describe(compiler()) == f"glslc 2023.2 at {path_folder / 'glslc'}"
    _find.cache_clear()
    script(path_folder / "glslangValidator", "echo Glslang Version: 11:12.0.0")
    wanted = f"glslang 12.0.0 at {path_folder / 'glslangValidator'}"
    assert describe(compiler()) == wanted


def test_without_any_compiler_the_remedy_is_named(path_folder: Path) -> None:
    with pytest.raises(NoCompilerError) as caught:
        compiler()
    message = str(caught.value)
    assert message.startswith("GLSL compiler: none found: no slangpy package,")
    assert "libno.so: cannot open" in message
    assert message.endswith("pip install 'vkbackend[glslang]'")


@pytest.mark.slangpy
def test_switch_chooses_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler().path
    monkeypatch.setenv(config.GLSLANG.name, path)
    assert isinstance(compiler(), SlangGlslang)


def test_switch_chooses_an_executable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = script(tmp_path / "glslang-15", "echo Glslang Version: 11:15.1.0")
    monkeypatch.setenv(config.GLSLANG.name, str(path))
    found = compiler()
    assert isinstance(found, ExecutableCompiler)
    assert describe(found) == f"glslang 15.1.0 at {path}"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gone.so", r"cannot be loaded: .+; it must be a shared glslang library or"),
        ("gone", r"is no executable; it must be a shared glslang library or"),
    ],
)
def test_switch_that_names_nothing(
    name: str, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(config.GLSLANG.name, str(tmp_path / name))
    with pytest.raises(NoCompilerError, match=f"^VKBACKEND_GLSLANG: '.+' {problem}"):
        compiler()


def test_program_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "glslc"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    monkeypatch.setenv(config.GLSLANG.name, str(path))
    with pytest.raises(
        NoCompilerError, match=r"cannot be run: .+; choose another with"
    ):
        compiler()


def test_library_of_another_kind_is_refused() -> None:
    with pytest.raises(OSError, match="exports neither glslang_compile_1_2 nor"):
        open_library("libc.so.6")


def test_a_library_whose_name_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.GLSLANG.name, os.fsdecode(b"\xff.so"))
    with pytest.raises(NoCompilerError, match=f"^{config.GLSLANG.name}: .*cannot be"):
        compiler()
