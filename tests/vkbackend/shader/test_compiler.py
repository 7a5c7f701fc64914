import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vkbackend import config
from vkbackend.errors import NoCompilerError, ShaderError
from vkbackend.shader import compiler
from vkbackend.shader.find_compiler import Compiler
from vkbackend.shader.glslang import ExecutableCompiler
from vkbackend.shader.reflection import read_module

pytestmark = pytest.mark.null

SOURCE = """// Doubles numbers.
#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Values { T at[]; };
layout(push_constant) uniform Push { Values x; uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) {
        x.at[i] *= T(2);
    }
}
"""
COOPERATIVE = """#version 460
#extension GL_KHR_cooperative_matrix : require
layout(local_size_x = 32) in;
void main() {}
"""


class Counting:
    """A compiler that counts its calls."""

    def __init__(self, inner: Compiler) -> None:
        self.name, self.version, self.path = inner.name, inner.version, inner.path
        self.inner = inner
        self.calls = 0

    def compile(self, source: str, spirv: tuple[int, int]) -> tuple[bytes, str]:
        self.calls += 1
        return self.inner.compile(source, spirv)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counting:
    """Return the compiler in use, with an empty cache."""
    found = Counting(compiler.compiler())
    monkeypatch.setattr(compiler, "compiler", lambda: found)
    monkeypatch.setenv(config.CACHE.name, str(tmp_path / "cache"))
    return found


def build(source: str = SOURCE, **defines: str) -> bytes:
    return compiler.compile_glsl(
        source, name="glsl/twice.comp", defines=defines or {"T": "float"}
    )


def failure(source: str, **defines: str) -> str:
    with pytest.raises(ShaderError) as caught:
        build(source, **defines)
    return str(caught.value)


def test_module_is_valid_and_plain() -> None:
    words = build()
    assert compiler.validate_spirv(words) is None
    assert read_module(words).version == (1, 5)
    assert "OpEntryPoint GLCompute" in compiler.disassemble(words)


def test_cooperative_matrices_get_the_version_they_need() -> None:
    assert read_module(build(COOPERATIVE)).version == (1, 6)


def test_error_shows_line_caret_and_defines() -> None:
    source = SOURCE.replace("x.at[i] *=", "x.at[i] * factor *=")
    assert failure(source, T="float", BLOCK="64").splitlines() == [
        "glsl/twice.comp:10: 'factor' : undeclared identifier",
        "    x.at[i] * factor *= T(2);",
        "              ^",
        "defines: T=float BLOCK=64",
    ]


def test_error_in_an_include_names_that_file(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "half.glsl").write_text("\n\nfloat half_of(float x) {\n\treturn y;\n}\n")
    source = SOURCE.replace("layout(local", '#include "half.glsl"\nlayout(local')
    with pytest.raises(ShaderError) as caught:
        compiler.compile_glsl(
            source, name="m", defines={"T": "float"}, include_folders=(folder,)
        )
    assert str(caught.value).splitlines()[:3] == [
        "kernels/half.glsl:4: 'y' : undeclared identifier",
        "    return y;",
        "           ^",
    ]
    after = source.replace("T(2)", "U(2)")
    (folder / "half.glsl").write_text("")
    with pytest.raises(ShaderError, match=r"^m:11: 'U' :"):
        compiler.compile_glsl(
            after, name="m", defines={"T": "float"}, include_folders=(folder,)
        )


def test_error_in_a_define_names_it() -> None:
    message = failure(SOURCE, T="float", **{"1": "2"})
    assert message.startswith("glsl/twice.comp (defines):2: '#define' :")


def test_error_without_a_place() -> None:
    message = failure(SOURCE.replace("main", "man"), T="float")
    first, last = message.splitlines()
    assert first.startswith("glsl/twice.comp: Linking compute stage: Missing entry")
    assert last == "defines: T=float"


def test_unknown_extension_names_the_compiler() -> None:
    found = compiler.compiler()
    with pytest.raises(NoCompilerError) as caught:
        build(COOPERATIVE.replace("KHR", "XYZ"))
    assert str(caught.value) == (
        "shader glsl/twice.comp requires GL_XYZ_cooperative_matrix, which glslang"
        f" {found.version} at {found.path} does not know;"
        " correct the name or update slangpy"
    )


def test_old_executable_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "glslangValidator"
    path.write_text(
        "#!/bin/sh\n"
        "if [ $1 = --version ]; then echo Glslang Version: 11:12.0.0; exit; fi\n"
        "echo stdin\n"
        "echo \"ERROR: 0:2: '#extension' : extension not supported:"
        ' GL_KHR_cooperative_matrix"\n'
        "exit 2\n"
    )
    path.chmod(0o755)
    old = ExecutableCompiler(str(path))
    monkeypatch.setattr(compiler, "compiler", lambda: old)
    with pytest.raises(NoCompilerError) as caught:
        build(COOPERATIVE)
    assert str(caught.value) == (
        "shader glsl/twice.comp requires GL_KHR_cooperative_matrix, which glslang"
        f" 12.0.0 at {path} does not know; install vkbackend[glslang]"
    )
    for call in (compiler.validate_spirv, compiler.disassemble):
        with pytest.raises(NoCompilerError, match=r"glslang 12\.0\.0 at .+ cannot do"):
            call(b"")


def test_cache_is_keyed_by_content(counting: Counting) -> None:
    words = build()
    assert build() == words
    assert counting.calls == 1
    build(T="int")
    build(SOURCE.replace("T(2)", "T(3)"))
    counting.version += "-other"
    build()
    assert counting.calls == 4


def test_changed_include_is_compiled_again(counting: Counting, tmp_path: Path) -> None:
    source = SOURCE.replace("layout(local", '#include "a.glsl"\nlayout(local')
    for text in ("// one\n", "// two\n", "// two\n"):
        (tmp_path / "a.glsl").write_text(text)
        compiler.compile_glsl(
            source, name="m", defines={"T": "float"}, include_folders=(tmp_path,)
        )
    assert counting.calls == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-4],
        lambda content: content[:100] + b"\xff" + content[101:],
        lambda content: os.urandom(500),
    ],
)
def test_damaged_entry_is_compiled_again(
    damage: Callable[[bytes], bytes], counting: Counting
) -> None:
    words = build()
    (entry,) = (config.cache_folder() / "spirv").iterdir()
    assert compiler.cached_module(entry.read_bytes(), entry.name) == words
    entry.write_bytes(damage(entry.read_bytes()))
    assert compiler.cached_module(entry.read_bytes(), entry.name) is None
    with pytest.warns(RuntimeWarning, match=r"shader cache: .+ is damaged") as warned:
        assert build() == words
    assert len(warned) == 1
    assert build() == words
    assert counting.calls == 2


def test_an_entry_under_the_name_of_another_is_compiled_again(
    counting: Counting,
) -> None:
    words = build()
    (entry,) = (config.cache_folder() / "spirv").iterdir()
    other = build(T="int")
    (second,) = set(entry.parent.iterdir()) - {entry}
    second.write_bytes(entry.read_bytes())
    with pytest.warns(RuntimeWarning, match=r"shader cache: .+ is damaged"):
        assert build(T="int") == other
    assert build() == words
    assert counting.calls == 3


def test_folder_that_cannot_be_written(counting: Counting, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.warns(RuntimeWarning, match=r"cannot write to .+VKBACKEND_CACHE$"):
        words = build()
    assert build() == words
    assert counting.calls == 2


def test_entry_is_the_module_after_its_digest(counting: Counting) -> None:
    words = build()
    (entry,) = (config.cache_folder() / "spirv").iterdir()
    named = entry.name.encode() + b"\n" + words
    assert entry.read_bytes() == hashlib.sha256(named).digest() + words


def test_kernels_of_the_package() -> None:
    assert any(compiler.glsl_folder().rglob("*.comp"))
    for path in compiler.glsl_folder().rglob("*.comp"):
        name = path.relative_to(compiler.glsl_folder()).with_suffix("").as_posix()
        assert compiler.load_kernel_source(name) == (path.read_text(), path)


@pytest.mark.parametrize("name", ["no/such", "x" * 5000, "null\0byte", "\ud800"])
def test_unknown_kernel(name: str) -> None:
    with pytest.raises(ShaderError, match=r"(?s)^kernel '.+': there is no file .+;"):
        compiler.load_kernel_source(name)


def test_broken_module_is_not_disassembled() -> None:
    with pytest.raises(ShaderError, match=r"^disassemble: the module is broken"):
        compiler.disassemble(b"12345678")
