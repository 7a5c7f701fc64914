import functools

import pytest

from vkbackend.tools.spirv.cli import diagnostics
from vkbackend.tools.spirv.lint import Diagnostic, lint, reasons
from vkbackend.tools.spirv.lint_rules import RULES
from vkbackend.tools.spirv.target import Target

from .shaders import compiled, main_of
from .variants import Shaders, each_library, library

FAULT = (
    "float s = 0; for (uint k = 0; k < push.n; ++k) s += push.x.at[i * push.m + k];"
    "push.y.at[i] = s;"
)


@functools.cache
def findings(shaders: Shaders) -> tuple[tuple[Target, list[Diagnostic]], ...]:
    """Return what lint finds in each of some shaders."""
    return tuple((target, diagnostics(target)) for target in shaders())


@each_library
def test_library_is_clean_or_has_reasons(shaders: Shaders) -> None:
    unexcused = [
        f"{target.name}: {row.where}: {row.message} [{row.rule}]"
        for target, found in findings(shaders)
        for row in found
        if not row.reason
    ]
    assert unexcused == []


# A reason may be that of one dtype.
@pytest.mark.wide
@pytest.mark.checkout
def test_every_reason_of_the_library_is_needed() -> None:
    given: dict[tuple[str, str], bool] = {}
    for target, found in findings(library):
        assert target.source is not None
        needed = {row.rule for row in found}
        for file in target.source.files:
            for rule in reasons([file.text]):
                key = (file.name, rule)
                given[key] = given.get(key, False) or rule in needed
    assert {rule for _, rule in given} <= {rule.name for rule in RULES}
    # Some includes serve fused kernels alone.
    unneeded = {key for key, used in given.items() if not used}
    assert {key for key in unneeded if "lib/math" not in key[0]} == set()


def test_a_complaint() -> None:
    (row,) = lint(main_of(FAULT))
    assert row.rule == "scalar-load"
    assert row.where == f"main(), word {row.offset}"
    assert row.message == (
        "a loop loads float after float, 4 bytes a round; 4 of them can be one load"
    )
    assert row.reason == ""


def test_a_reason_excuses() -> None:
    text = "// A kernel\n// lint    scalar-load: rows begin\n//         anywhere\n"
    (row,) = lint(main_of(FAULT), texts=[text])
    assert row.reason == "rows begin anywhere"


def test_reasons() -> None:
    text = (
        "// lint    one: because\n// lint    two: for this\n//         and that\n"
        "//         and more\n// source  three: no\n"
    )
    assert reasons([text]) == {"one": "because", "two": "for this and that and more"}


def test_a_workgroup_that_is_left_open_counts_as_64() -> None:
    head = (
        "#version 460\n#extension GL_EXT_buffer_reference : require\n"
        "layout(local_size_x_id = 0) in;\n"
        "layout(buffer_reference, std430) restrict buffer B { float at[]; };\n"
        "layout(push_constant) uniform Push { B y; uint n; };\n"
    )
    body = (
        "void main() { float s = 0.0; uint size = gl_WorkGroupSize.x;"
        " for (uint k = 0; k < n; k += size) s += y.at[k]; y.at[0] = s; }"
    )
    assert lint(compiled(body, head)) == []
    assert [row.rule for row in lint(compiled(body, head), {"LOCAL_X": 1})] == [
        "scalar-load"
    ]
