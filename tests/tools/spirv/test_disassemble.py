import re

import pytest

from vkbackend import ShaderError
from vkbackend.shader.compiler import disassemble as by_the_compiler
from vkbackend.tools.spirv.disassemble import disassemble, listing

from . import modules
from .generated import fused, some_fused
from .listing import known, needs_spirv_dis, text_of
from .shaders import COOPERATIVE, compiled, main_of
from .variants import Shaders, some_of_library


def numbered(lines: list[str]) -> list[str]:
    """Return lines with ids in the order of their first use, whatever their names."""
    order: dict[str, str] = {}
    return [
        re.sub(
            r"%\w+", lambda found: order.setdefault(found[0], f"%{len(order)}"), line
        )
        for line in lines
    ]


@needs_spirv_dis
@some_of_library
def test_library_as_spirv_dis_has_it(shaders: Shaders) -> None:
    for target in filter(lambda row: known(row.words), shaders()):
        assert disassemble(target.words) == text_of(target.words), target.name


@needs_spirv_dis
@some_fused
def test_fused_kernels_as_spirv_dis_has_them(count: int) -> None:
    for words in fused(count):
        assert disassemble(words) == text_of(words)


@needs_spirv_dis
def test_numbers_as_spirv_dis_has_them() -> None:
    words = modules.numbers()
    assert disassemble(words) == text_of(words)


def test_operations_of_after_2023_as_the_compiler_has_them() -> None:
    # Debian 12's spirv-dis knows neither cooperative matrices nor bfloat16.
    words = compiled(COOPERATIVE, "")
    said = re.sub(r"\s*;.*", "", by_the_compiler(words))
    theirs = [line for line in said.splitlines() if line]
    assert numbered(disassemble(words)) == numbered(theirs)
    assert "OpTypeCooperativeMatrixKHR" in said
    assert "BFloat16KHR" in said


def test_listing_has_names_and_source_lines() -> None:
    words = main_of("push.y.at[i] = push.x.at[i];")
    text = "\n".join(listing(words))
    assert "%push = OpVariable" in text
    assert "%uint = OpTypeInt 32 0" in text
    assert "%int_0 = OpConstant %int 0" in text


def test_a_broken_module_says_where() -> None:
    with pytest.raises(ShaderError, match=r"^SPIR-V word 5: operation 0 is 0 words"):
        disassemble(modules.assemble((0, ()))[:20] + b"\0\0\0\0")
