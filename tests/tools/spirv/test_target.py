from pathlib import Path

import pytest

from vkbackend import ShaderError
from vkbackend.tools.spirv.report import report
from vkbackend.tools.spirv.target import find

from .shaders import HEAD, compiled, main_of

SOURCE = HEAD + '#include "part.glsl"\nvoid main() { push.y.at[i] = VALUE; }\n'


@pytest.fixture
def shader(tmp_path: Path) -> Path:
    (tmp_path / "part.glsl").write_text("#ifndef VALUE\n#define VALUE 1.0\n#endif\n")
    path = tmp_path / "one.comp"
    path.write_text(SOURCE)
    return path


def test_a_module(tmp_path: Path) -> None:
    path = tmp_path / "two.spv"
    path.write_bytes(main_of("push.y.at[i] = 1.0;"))
    target = find(str(path), constants={"N": 3})
    assert target.name == "two"
    assert target.words == main_of("push.y.at[i] = 1.0;")
    assert target.constants == {"N": 3}
    assert target.with_lines() == (target.words, [])
    with pytest.raises(ShaderError, match="it is compiled already: --dtype"):
        find(str(path), dtype="float16")


def test_glsl_with_includes_and_lines(shader: Path) -> None:
    target = find(str(shader), defines={"VALUE": "2.0"})
    words, lines = target.with_lines()
    assert words != target.words
    where, text = lines[[text for _, text in lines].index(SOURCE.splitlines()[-1])]
    assert where == f"{shader}:{SOURCE.count(chr(10))}"
    assert "void main" in text
    assert any(place.endswith("part.glsl:2") for place, _ in lines)


def test_a_kernel_and_its_variants() -> None:
    plain = find("matmul/gemm_tiled")
    assert plain.name == "matmul/gemm_tiled"
    half = find("matmul/gemm_tiled", dtype="float16")
    assert half.name == "matmul/gemm_tiled float16"
    buffers = report("", half.words)["buffers"]
    assert buffers[0]["members"][0]["type"] == "uint16[]"
    wide = find("copy/slice_update", dtype="float64")
    assert wide.constants == {"SIZE": 8}
    assert wide.words == find("copy/slice_update").words


@pytest.mark.parametrize(
    ("name", "dtype", "problem"),
    [
        ("no/kernel", "", r"kernel 'no/kernel': there is no file"),
        ("no.comp", "", r"no.comp: cannot be read: No such file"),
        (
            "matmul/gemm_tiled",
            "complex64",
            r"it has no variant for 'complex64'; there are",
        ),
        ("random", "", r"kernel 'random'"),
    ],
)
def test_what_is_not_there(name: str, dtype: str, problem: str) -> None:
    with pytest.raises(ShaderError, match=problem):
        find(name, dtype=dtype)


def test_glsl_of_one_type(shader: Path) -> None:
    with pytest.raises(ShaderError, match="no variant for 'int8'; there are float32"):
        find(str(shader), dtype="int8")
    assert find(str(shader), dtype="float32").words
    assert compiled
