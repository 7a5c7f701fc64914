import ctypes
import gc
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interruption import Interrupter
from vkbackend.shader import glslang
from vkbackend.shader.find_compiler import Compiler, _slangpy_libraries, open_library
from vkbackend.shader.glslang import ExecutableCompiler, Shaderc, SlangGlslang
from vkbackend.shader.reflection import read_module

pytestmark = pytest.mark.null

SOURCE = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint UNUSED = 7;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Push { Floats x; uint count; };
void main() {
    if (gl_GlobalInvocationID.x < count) x.at[gl_GlobalInvocationID.x] += 1.0;
}
"""


@pytest.fixture(
    params=[
        pytest.param("slangpy", marks=pytest.mark.slangpy),
        "libshaderc.so.1",
        "glslangValidator",
        "glslc",
    ]
)
def found(request: pytest.FixtureRequest) -> Compiler:
    """Return each kind of compiler that this machine has."""
    name: str = request.param
    if name == "slangpy":
        (path,) = _slangpy_libraries()
        return open_library(path)
    if name.startswith("lib"):
        try:
            return open_library(name)
        except OSError as error:
            pytest.skip(str(error))
    executable = shutil.which(name)
    if executable is None:
        pytest.skip(f"no {name} on PATH")
    return ExecutableCompiler(executable)


@pytest.mark.parametrize("spirv", [(1, 5), (1, 6)])
def test_names_and_constants_survive(found: Compiler, spirv: tuple[int, int]) -> None:
    words, log = found.compile(SOURCE, spirv)
    assert words, log
    module = read_module(words)
    assert module.version == spirv
    assert module.workgroup_ids == (0, None, None)
    assert [c.name for c in module.spec_constants] == ["LOCAL_X", "UNUSED"]
    assert module.push is not None
    assert [field.name for field in module.push.fields] == ["x", "count"]


def test_errors_tell_file_number_and_line(found: Compiler) -> None:
    source = SOURCE.replace("void main", "#line 41 7\nvoid main").replace("1.0", "y")
    words, log = found.compile(source, (1, 5))
    assert not words
    assert re.search(r"\b7:42: .*'y' : undeclared identifier", log)


def test_threads_compile_at_the_same_time(found: Compiler) -> None:
    if isinstance(found, ExecutableCompiler):
        pytest.skip("a process for each shader")
    sources = [SOURCE.replace("1.0", f"{i}.0") for i in range(32)]
    alone = [found.compile(source, (1, 5)) for source in sources]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda source: found.compile(source, (1, 5)), sources))
    assert together == alone
    assert len({words for words, _ in alone}) == 32


@pytest.mark.slangpy
def test_slang_validates_and_disassembles() -> None:
    (path,) = _slangpy_libraries()
    slang = open_library(path)
    assert isinstance(slang, SlangGlslang)
    words, _ = slang.compile(SOURCE, (1, 5))
    assert slang.validate(words) is None
    assert "Missing OpFunctionEnd" in (slang.validate(words[:-4]) or "")
    assert "OpEntryPoint GLCompute %main" in slang.disassemble(words)
    assert slang.disassemble(b"nonsense") == ""


def stderr_file() -> tuple[int, int]:
    """Return which file stderr is."""
    found = os.fstat(2)
    return found.st_dev, found.st_ino


def stderr_and_descriptors() -> tuple[tuple[int, int], int]:
    """Return which file stderr is, and how many are open."""
    return stderr_file(), len(os.listdir("/proc/self/fd"))


@pytest.mark.slangpy
def test_an_interrupt_of_validation_gives_stderr_back() -> None:
    slang = open_library(_slangpy_libraries()[0])
    assert isinstance(slang, SlangGlslang)
    words, _ = slang.compile(SOURCE, (1, 5))
    assert slang.validate(words) is None
    # What other tests have left open must not be closed meanwhile.
    gc.collect()
    before = stderr_and_descriptors()
    for place in range(1, 100):
        one = Interrupter(place, glslang.__file__)
        one.run(lambda: slang.validate(words))
        assert stderr_and_descriptors() == before, one.where
        if not one.where:
            break
    assert 12 < place < 99
    # After a call, before the next line.
    real, place = os.dup2, 0

    def interrupted(*given: int) -> None:
        nonlocal place
        real(*given)
        place += 1
        if place == 1:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "dup2", interrupted)
        with pytest.raises(KeyboardInterrupt):
            slang.validate(words)
    assert stderr_and_descriptors() == before


@pytest.mark.slangpy
@pytest.mark.filterwarnings("ignore:.*use of fork")
def test_a_child_forked_beside_a_validation_has_its_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slang = open_library(_slangpy_libraries()[0])
    assert isinstance(slang, SlangGlslang)
    monkeypatch.setattr(glslang, "_forked_within", False)
    before, statuses = stderr_file(), []

    def forking(words: bytes, count: int) -> bool:
        (saved,) = glslang._stderr
        child = os.fork()
        if not child:
            closed = not os.path.exists(f"/proc/self/fd/{saved}")
            os._exit(not (closed and stderr_file() == before))
        statuses.append(os.waitpid(child, 0)[1])
        return True

    monkeypatch.setattr(slang, "_validate", forking)
    assert slang.validate(b"") is None
    assert statuses == [0]


class FakeShaderc:
    """What the C interface of libshaderc does, recorded."""

    def __init__(self, *, works: bool) -> None:
        self.module = ctypes.create_string_buffer(b"MODULE")
        self.released: list[int] = []
        self.target = 0
        self.source = b""
        answers = {
            "compiler_initialize": lambda: 1,
            "compile_options_initialize": lambda: 2,
            "compile_options_release": self.released.append,
            "compile_options_set_target_env": self.set_target,
            "compile_into_spv": self.compile,
            "result_get_compilation_status": lambda result: 0 if works else 2,
            "result_get_length": lambda result: 6,
            "result_get_bytes": lambda result: ctypes.addressof(self.module),
            "result_get_error_message": lambda result: b"" if works else b"0:1: bad",
            "result_release": self.released.append,
        }
        for name, answer in answers.items():
            # A method takes no attributes; ctypes functions and these do.
            setattr(self, f"shaderc_{name}", lambda *a, answer=answer: answer(*a))

    def set_target(self, options: int, target: int, version: int) -> None:
        self.target = version

    def compile(self, _compiler: int, source: bytes, size: int, *_rest: object) -> int:
        self.source = source[:size]
        return 3


@pytest.mark.parametrize("works", [True, False])
def test_shaderc_calls(works: bool) -> None:
    library = FakeShaderc(works=works)
    found = Shaderc(library, "libshaderc.so")  # type: ignore[arg-type]
    answer = found.compile("source", (1, 6))
    assert answer == ((b"MODULE", "") if works else (b"", "0:1: bad"))
    assert library.source == b"source"
    assert library.target == 1 << 22 | 3 << 12
    assert library.released == [3, 2]


def test_executable_that_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "glslc"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert ExecutableCompiler(str(path)).compile(SOURCE, (1, 5)) == (b"", "")
