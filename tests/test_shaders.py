"""Every shader compiles, is valid, says what it is, and is asked for by somebody.

Here each kernel is compiled as it is without macros. Its variants, and the generated
kernels, are validated when the gate runs the device tests under the validation layer,
which looks at every module that is loaded.
"""

import re
from pathlib import Path

import pytest

from tests.tree import FOLDERS
from vkbackend.shader import compiler

GLSL = FOLDERS["vkbackend.glsl"]
KERNELS = sorted(
    path.relative_to(GLSL).with_suffix("").as_posix() for path in GLSL.rglob("*.comp")
)
LIBRARY = sorted(path.relative_to(GLSL).as_posix() for path in GLSL.rglob("*.glsl"))
HEADER = ("grid", "in", "out", "consts", "source")


def text_of(folder: Path, *patterns: str) -> str:
    paths = (path for pattern in patterns for path in folder.rglob(pattern))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_compiles_and_is_valid(name: str) -> None:
    source, path = compiler.load_kernel_source(name)
    words = compiler.compile_glsl(source, name=f"glsl/{name}.comp")
    assert path.is_file()
    assert compiler.validate_spirv(words) is None


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_says_what_it_is(name: str) -> None:
    source, _ = compiler.load_kernel_source(name)
    header = re.match(r"(//.*\n)+", source)
    assert header, "the first line is a comment"
    # `in` and `out` may share a line.
    missing = [word for word in HEADER if not re.search(rf"\b{word}  ", header[0])]
    assert missing == []


def test_every_kernel_is_asked_for() -> None:
    folders = FOLDERS["vkbackend"], FOLDERS["vkbackend.framework"]
    asked = "".join(text_of(folder, "*.py") for folder in folders)
    assert [name for name in KERNELS if f'"{name}"' not in asked] == []


def test_every_include_is_included() -> None:
    shaders = text_of(GLSL, "*.comp", "*.glsl")
    included = re.findall(r'#include "(?:.*/)?(.*)"', shaders)
    # Generated kernels name files of the library without folder and ending, but those
    # of `lib/math` are found by the functions in them.
    generated = text_of(FOLDERS["vkbackend.framework"], "*.py")
    unused = [
        name
        for name in LIBRARY
        if not name.startswith("lib/math/")
        and Path(name).name not in included
        and f'"{name.removeprefix("lib/").removesuffix(".glsl")}"' not in generated
    ]
    assert unused == []
