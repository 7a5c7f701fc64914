import pytest

from vkbackend import ShaderError
from vkbackend.tools.spirv.abstract_interpreter import Values
from vkbackend.tools.spirv.cost_model import LoopNest, loop_nests, walk
from vkbackend.tools.spirv.module import read_program

from .shaders import COOPERATIVE, compiled, main_of


def cost(words: bytes) -> LoopNest:
    """Return the costs of a shader."""
    values = Values(read_program(words))
    return loop_nests(values, list(walk(values)))


@pytest.mark.parametrize(
    ("expression", "flops"),
    [
        ("a + b", 1),
        ("-a", 1),
        ("fma(a, b, a)", 2),
        ("mix(a, b, a)", 3),
        ("dot(vec4(a), vec4(b))", 7),
        ("(vec3(a) * b).x", 3),
        ("(mat4(a) * vec4(b)).x", 28),
        ("exp(a)", 0),
        ("float(int(a) + int(b))", 0),
        ("a < b ? a : b", 0),
    ],
)
def test_flops(expression: str, flops: int) -> None:
    words = main_of(
        f"float a = push.x.at[0], b = push.x.at[1]; push.y.at[0] = {expression};"
    )
    assert cost(words).own.flops == flops


@pytest.mark.parametrize(
    ("loop", "rounds"),
    [
        ("for (uint k = 0; k < 5; ++k)", 5),
        ("for (uint k = 0; k < 0; ++k)", 0),
        ("for (int k = 9; k >= 0; k -= 3)", 4),
        ("for (uint k = 64; k > 0; k /= 2)", 7),
        ("for (uint k = 1; k < 100; k <<= 1)", 7),
        ("uint k = 0; do { ++k; push.y.at[k] = 1.0; } while (k < 6); if (k == 9)", 6),
        ("for (uint k = 0; k < push.n; ++k)", None),
        ("for (uint k = lane; k < 64; k += 64)", None),
    ],
)
def test_rounds(loop: str, rounds: int | None) -> None:
    (nest,) = cost(main_of(f"{loop} push.y.at[k] = 1.0;")).inner
    if rounds is None and "lane" in loop:
        assert nest.rounds == 1  # of the first invocation
    else:
        assert nest.rounds == rounds


def test_loops_in_loops() -> None:
    words = main_of(
        "float s = 0; for (uint a = 0; a < 3; ++a) for (uint b = 0; b < 4; ++b)"
        " s += push.x.at[a * 4 + b]; push.y.at[i] = s;"
    )
    (outer,) = cost(words).inner
    (inner,) = outer.inner
    assert (outer.rounds, inner.rounds) == (3, 4)
    total, complete = cost(words).total()
    assert complete
    assert total.flops == 12
    assert total.read["device"] == 48
    assert total.counts["load device"] == 12


def test_calls_are_counted_where_they_are() -> None:
    words = compiled(
        "float one(uint k) { return push.x.at[k] * 2.0; }\n"
        "void main() { float s = one(7); for (uint k = 0; k < 4; ++k) s = one(k);"
        " push.y.at[i] = s; }"
    )
    nest = cost(words)
    assert nest.own.flops == 1
    assert nest.inner[0].own.flops == 1
    assert nest.total()[0].flops == 5


def test_matrices() -> None:
    nest = cost(compiled(COOPERATIVE, ""))
    assert nest.own.matrix_flops == 2 * 16 * 16 * 16
    assert nest.own.counts["matrix"] == 4
    assert nest.own.counts["barrier"] == 1


def test_calls_that_multiply() -> None:
    lines = ["float f0(float x) { return x + 1.0; }"]
    for n in range(1, 20):
        lines.append(f"float f{n}(float x) {{ return f{n - 1}(x) + f{n - 1}(x); }}")
    lines.append("void main() { push.y.at[0] = f19(1.0); }")
    with pytest.raises(ShaderError, match=r"word \d+: calls make the shader too long"):
        cost(compiled("\n".join(lines)))
