from collections import Counter

import pytest

from vkbackend.tools.spirv.lint import lint
from vkbackend.tools.spirv.lint_rules import RULES

from .generated import fused, some_fused
from .shaders import COOPERATIVE, HEAD, compiled, main_of

WIDE = HEAD.replace(
    "#extension GL_EXT_buffer_reference",
    "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
    "#extension GL_EXT_buffer_reference",
)
VECTORS = HEAD.replace("float at[]", "vec4 at[]")
OPEN = HEAD.replace("restrict readonly buffer", "buffer")
ATOMIC = HEAD.replace("Out { float at[]; }", "Out { uint at[]; }")


def found(words: bytes) -> set[str]:
    """Return the rules that find something."""
    return {row.rule for row in lint(words)}


# Each rule: a shader with the fault, and nearly the same one without.
PLANTED = {
    "scalar-load": (
        "float s = 0; for (uint k = 0; k < push.n; ++k) s += push.x.at[i * push.m + k];"
        " push.y.at[i] = s;",
        "float s = 0; for (uint k = 0; k < push.n; ++k) s += push.x.at[k * push.m + i];"
        " push.y.at[i] = s;",
        HEAD,
    ),
    "wide-arithmetic": (
        "uint64_t s = i; for (uint k = 0; k < push.n; ++k) s = s * 5ul + k;"
        " push.y.at[i] = float(s);",
        "uint s = i; for (uint k = 0; k < push.n; ++k) s = s * 5 + k;"
        " uint64_t t = s * 3ul; push.y.at[i] = float(t);",
        WIDE,
    ),
    "integer-division": (
        "uint s = i; for (uint k = 0; k < push.n; ++k) s = s / push.m + k;"
        " push.y.at[i] = float(s);",
        "uint s = i; for (uint k = 0; k < push.n; ++k) s = s / 7 + k;"
        " push.y.at[i % push.m] = float(s);",
        HEAD,
    ),
    "qualifier": (
        "push.y.at[i] = push.x.at[i];",
        "push.y.at[i] = 1.0;",
        OPEN,
    ),
    "alignment": (
        "push.y.at[i] = push.x.at[i];",
        "push.y.at[i].x = push.x.at[i].y;",
        VECTORS,
    ),
    "private-array": (
        "float a[8]; for (uint k = 0; k < 8; ++k) a[k] = k; push.y.at[i] = a[i % 8];",
        "float a[8]; for (uint k = 0; k < 8; ++k) a[k] = k; float s = 0;"
        " for (uint k = 0; k < 8; ++k) s += a[7 - k]; push.y.at[i] = s;",
        HEAD,
    ),
    "divergent-barrier": (
        "if (i < push.n) { barrier(); } push.y.at[i] = 1.0;",
        "if (push.m < push.n) { barrier(); } push.y.at[i] = 1.0;",
        HEAD,
    ),
    "atomic-in-loop": (
        "for (uint k = 0; k < push.n; ++k) atomicAdd(push.y.at[0], i + k);",
        "uint s = 0; for (uint k = 0; k < push.n; ++k) s += i + k;"
        " atomicAdd(push.y.at[0], s);",
        ATOMIC,
    ),
}

TILE = """
shared float tile[64 * 33];
void main() {{
    tile[lane] = push.x.at[i];
    barrier();
    float s = 0.0;
    for (uint k = 0; k < 32; ++k) s += tile[lane % 32 * {rows} + k];
    push.y.at[i] = s;
}}
"""

NAIVE_PRODUCT = """
layout(buffer_reference, std430) buffer Matrix { float at[]; };
layout(push_constant) uniform Push { Matrix a, b, c; uint m, n, k; };
layout(local_size_x = 32, local_size_y = 8) in;
shared float tile[32][32];
void main() {
    uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
    if (row >= m || column >= n) return;
    float sum = 0.0;
    for (uint start = 0; start < k; start += 32) {
        tile[gl_LocalInvocationID.x][gl_LocalInvocationID.y] = b.at[start * n + column];
        barrier();
        for (uint i = 0; i < 32; ++i) {
            uint place = (row * k + start + i) / n * n + (row * k + start + i) % n;
            sum += a.at[row * k + start + i] * tile[gl_LocalInvocationID.x][i] + place;
        }
        barrier();
    }
    c.at[row * n + column] = sum;
}
"""


def test_each_rule_is_planted() -> None:
    assert {*PLANTED, "bank-conflict"} == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", PLANTED)
def test_planted_fault_is_found(rule: str) -> None:
    faulty, clean, head = PLANTED[rule]
    assert rule in found(compiled(f"void main() {{\n{faulty}\n}}\n", head))
    assert rule not in found(compiled(f"void main() {{\n{clean}\n}}\n", head))


def test_clean_shader() -> None:
    assert found(main_of("push.y.at[i] = push.x.at[i] * 2.0;")) == set()


def test_four_neighbours_that_are_aligned() -> None:
    body = "uint j = {}; push.y.at[i] = {};"
    four = " + ".join(f"push.x.at[j + {n}]" for n in range(4))
    three = " + ".join(f"push.x.at[j + {n}]" for n in range(3))
    assert found(main_of(body.format("4 * i", four))) == {"scalar-load"}
    assert found(main_of(body.format("4 * i", three))) == set()
    # Nothing says that these begin at a multiple of four.
    assert found(main_of(body.format("push.n + i", four))) == set()


@pytest.mark.parametrize(("rows", "expected"), [(32, True), (33, False), (16, True)])
def test_bank_conflicts(rows: int, expected: bool) -> None:
    words = compiled(TILE.format(rows=rows))
    assert ("bank-conflict" in found(words)) is expected


@pytest.mark.parametrize(("stride", "expected"), [(8, True), (9, False), (16, True)])
def test_bank_conflicts_of_matrices(stride: int, expected: bool) -> None:
    source = COOPERATIVE.replace("tile, 0, 8", f"tile, 0, {stride}")
    assert ("bank-conflict" in found(compiled(source, ""))) is expected


def test_loads_in_a_called_function_and_through_an_array() -> None:
    words = compiled(
        "float one(uint row, uint k) { return push.x.at[row + k]; }\n"
        "void main() { uint rows[2]; for (uint r = 0; r < 2; ++r)"
        " rows[r] = (i + r) * push.m; float s = 0.0;"
        " for (uint k = 0; k < push.n; ++k) s += one(rows[1], k); push.y.at[i] = s; }"
    )
    assert found(words) == {"scalar-load"}


def test_data_of_64_bits_is_no_fault() -> None:
    head = WIDE.replace("float at[]", "double at[]")
    body = "double s = 0; for (uint k = 0; k < 9; ++k) s += push.x.at[k * 64 + i];"
    words = compiled(f"void main() {{ {body} push.y.at[i] = s; }}", head)
    assert found(words) == set()


def test_barrier_after_some_have_left() -> None:
    early = main_of("if (i >= push.n) return; barrier(); push.y.at[i] = 1.0;")
    uniform = main_of(
        "if (gl_WorkGroupID.x >= push.n) return; barrier(); push.y.at[i] = 1.0;"
    )
    assert found(early) == {"divergent-barrier"}
    assert found(uniform) == set()


def test_naive_product() -> None:
    head = "#version 460\n#extension GL_EXT_buffer_reference : require\n"
    assert found(compiled(NAIVE_PRODUCT, head)) == {
        "scalar-load",
        "integer-division",
        "qualifier",
        "bank-conflict",
        "divergent-barrier",
    }


@some_fused
def test_fused_kernels(count: int) -> None:
    counts: Counter[str] = Counter()
    for words in fused(count):
        counts.update(found(words))
    # The sine of a large number looks 2 / pi up, which lib/math gives a reason for. A
    # contiguous view that begins at an odd element has its offset in the address, which
    # then is not aligned, and the module does not tell.
    assert set(counts) <= {"private-array", "scalar-load"}
    assert counts["scalar-load"] < count // 10


def test_every_rule_says_what_to_do_and_why() -> None:
    for rule in RULES:
        assert rule.advice
        assert "lavapipe" in rule.evidence or rule.name == "divergent-barrier"
