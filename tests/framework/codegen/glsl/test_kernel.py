"""Programs in, GLSL out: the golden files in `tests/data/fusion`.

Each file is a program as Python writes it, a line of dashes, and the shader. To write
the shaders anew after a change of the emitter, and then read the difference, run

    python -m tests.framework.codegen.glsl.test_kernel
"""

from pathlib import Path

import pytest

from tests.framework.codegen.graphs import apply, memory, result
from vkbackend.framework.base.dtype import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint8,
)
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen.glsl.kernel import emit
from vkbackend.framework.codegen.ir import program as expr
from vkbackend.framework.codegen.ir.program import KernelProgram, push_fields
from vkbackend.framework.codegen.lower import build_kernel
from vkbackend.framework.ir.lazy_graph import Node
from vkbackend.shader import compiler, reflection

FOLDER = Path(__file__).resolve().parents[3] / "data" / "fusion"
RULE = "-" * 88


def chain() -> list[Node]:
    product = apply("mul", memory((7, 11)), memory((7, 11)))
    total = apply("add", result(product), 2.5)
    return [product, total, apply("relu", result(total))]


def broadcast() -> list[Node]:
    row, column = memory((8,)), memory((12, 1))
    scaled = apply("mul", memory((12, 8)), row)
    shifted = apply("sub", result(scaled), column)
    return [scaled, shifted, apply("maximum", result(shifted), memory(()))]


def odd_sizes() -> list[Node]:
    strided = memory((), float32, Layout((3, 5, 7), (77, 7, 2), 3))
    return [apply("add", strided, memory((5, 1)))]


def narrow() -> list[Node]:
    pixels = memory((), uint8, Layout((4, 8), (9, 1), 3))
    signed = apply("cast", pixels, compute=int8)
    doubled = apply("add", result(signed), result(signed))
    return [signed, doubled, apply("lt", result(doubled), -1, result=bool_)]


def halves() -> list[Node]:
    total = apply("add", memory((64,), float16), memory((1,), float16))
    return [total, apply("cast", result(total), compute=float32)]


def conversions() -> list[Node]:
    total = apply("add", memory((64,), bfloat16), memory((64,), bfloat16))
    return [total, apply("cast", result(total), compute=uint8)]


def wide() -> list[Node]:
    total = apply("mul", memory((3, 5), int64), 3)
    real = apply("cast", result(total), compute=float64)
    return [total, real, apply("sqrt", result(real))]


def choice() -> list[Node]:
    return [apply("where", memory((113,), bool_), memory((113,)), 0.0, compute=float32)]


def outputs() -> list[Node]:
    power = apply("exp", memory((32,)))
    return [power, apply("neg", result(power)), apply("cos", result(power))]


def operands() -> list[Node]:
    nodes = [apply("add", memory((20,)), memory((20,)))]
    for _ in range(14):
        nodes.append(apply("add", result(nodes[-1]), memory((20,))))
    return nodes


GRAPHS = {
    "chain": (chain, 1),
    "broadcast": (broadcast, 1),
    "odd_sizes": (odd_sizes, 1),
    "narrow": (narrow, 2),
    "halves": (halves, 2),
    "conversions": (conversions, 2),
    "wide": (wide, 1),
    "choice": (choice, 1),
    "outputs": (outputs, 3),
    "operands": (operands, 1),
}
"""Graphs by the name of their file, and how many of the last values are wanted."""


def program_of(name: str) -> KernelProgram:
    graph, wanted = GRAPHS[name]
    nodes = graph()
    ids = {id(node.outputs[0]) for node in nodes[-wanted:]}
    return build_kernel(nodes, ids).program


def written(program: KernelProgram) -> str:
    """Return a program as Python writes it, one entry a line."""
    lines = ["KernelProgram("]
    for name, value in zip(program._fields, program):
        if isinstance(value, tuple) and value:
            entries = [f"        {entry!r}," for entry in value]
            lines += [f"    {name}=(", *entries, "    ),"]
        else:
            lines.append(f"    {name}={value!r},")
    return "\n".join([*lines, ")"])


def golden(name: str) -> tuple[str, str]:
    """Return a file's program and its shader."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    program, _, source = text.partition(f"\n{RULE}\n")
    return program, source


def test_each_graph_has_its_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GRAPHS)


@pytest.mark.parametrize("name", GRAPHS)
def test_program(name: str) -> None:
    assert written(program_of(name)) == golden(name)[0]


@pytest.mark.parametrize("name", GRAPHS)
def test_shader(name: str) -> None:
    program, source = golden(name)
    assert emit(eval(program, vars(expr))) == source


@pytest.mark.parametrize(("moved_in_64_bits", "rounds"), [(False, 1), (True, 4)])
@pytest.mark.parametrize("name", GRAPHS)
def test_shader_is_valid(name: str, moved_in_64_bits: bool, rounds: int) -> None:
    source = emit(program_of(name)._replace(rounds=rounds), moved_in_64_bits)
    words = compiler.compile_glsl(source, name=f"fused/{name}")
    assert compiler.validate_spirv(words) is None


@pytest.mark.parametrize("name", GRAPHS)
def test_siblings_take_rows(name: str) -> None:
    program = program_of(name)
    source = emit(program, horizontal=True)
    module = reflection.read_module(compiler.compile_glsl(source, name=f"fused/{name}"))
    assert module.arguments is not None
    assert [field.name for field in module.arguments.fields] == ["sibling_of"]
    assert module.arguments.rows is not None
    fields = [field.name for field in module.arguments.rows.fields]
    assert fields == [*(name for name, _ in push_fields(program)), "first"]


def regenerate() -> None:
    """Write every golden file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in GRAPHS:
        program = program_of(name)
        text = f"{written(program)}\n{RULE}\n{emit(program)}"
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    regenerate()
