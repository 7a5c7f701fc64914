"""Programs whose invocations take more than four elements."""

import pytest

from tests.framework.codegen.glsl.test_kernel import GRAPHS, program_of
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.glsl.wide import GROUPS
from vkbackend.framework.codegen.ir.program import push_fields
from vkbackend.shader import compiler, reflection


def source_of(name: str, pairs: str, horizontal: bool = False) -> str:
    return emit(program_of(name)._replace(pairs=pairs), horizontal=horizontal)


@pytest.mark.parametrize("pairs", GROUPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_shader_is_valid(name: str, pairs: str) -> None:
    words = compiler.compile_glsl(source_of(name, pairs), name=f"fused/{name}")
    assert compiler.validate_spirv(words) is None


@pytest.mark.parametrize("pairs", GROUPS)
def test_siblings_take_rows(pairs: str) -> None:
    program = program_of("halves")
    source = source_of("halves", pairs, horizontal=True)
    module = reflection.read_module(compiler.compile_glsl(source, name="fused/halves"))
    assert module.arguments is not None
    assert module.arguments.rows is not None
    fields = [field.name for field in module.arguments.rows.fields]
    assert fields == [*(name for name, _ in push_fields(program)), "first"]


@pytest.mark.parametrize("pairs", GROUPS)
def test_everything_in_order_is_read_before_anything_is_computed(pairs: str) -> None:
    main = source_of("chain", pairs).partition("void main()")[2]
    before, _, after = main.partition("compute0(")
    assert before.count("in0.at[") == before.count("in1.at[") == GROUPS[pairs]
    assert ".at[" not in after.partition("out0.at[")[0]
    assert after.count("out0.at[") == GROUPS[pairs]


def test_joined_halves_move_sixteen_bytes() -> None:
    source = source_of("halves", "joined")
    assert "In_uvec4(in0).at[number]" in source
    assert "Out_uvec4(out0).at[number]" in source
    # The other result has words of four bytes, and is written four elements at a time.
    assert "if (has_1) out1.at[i_1]" in source
    assert "uvec4(in0)" not in source_of("halves", "apart")


def test_the_program_says_which_shader_it_is() -> None:
    program = program_of("chain")
    sources = {emit(program._replace(pairs=pairs)) for pairs in ("", *GROUPS)}
    assert len(sources) == 1 + len(GROUPS)
