"""How a group of invocations folds what each of them has; run in `test_row_build`."""

import pytest

from tests.framework.codegen import rows
from tests.framework.codegen.rows import GPU, SOFTWARE, UNLIKE, program
from vkbackend.framework.base.dtype import float64
from vkbackend.framework.codegen.glsl.group_reduce import (
    folding,
    identity,
    place_in_workgroup,
    uses_subgroups,
)


def test_subgroups_exchange_values_where_they_are_alike() -> None:
    text = "\n".join(folding(program(rows.softmax(), GPU)))
    assert text.count("subgroupShuffleXor") == 2 * (5 + 2)
    # One barrier for each fold, for the subgroups of a row.
    assert text.count("barrier()") == 2
    assert "gl_SubgroupID" in place_in_workgroup(program(rows.softmax(), GPU))


def test_a_row_of_one_subgroup_needs_no_memory() -> None:
    text = "\n".join(folding(program(rows.softmax(64, 128), GPU)))
    assert text.count("subgroupShuffleXor") == 2 * 5
    assert "shared" not in text


def test_memory_is_shared_where_subgroups_are_not_known() -> None:
    for made in (
        program(rows.softmax(), UNLIKE),
        program(rows.softmax(4, 64, float64), SOFTWARE),
        program(rows.softmax(64, 64, float64), GPU),
    ):
        assert not uses_subgroups(made)
        assert "shared" in "\n".join(folding(made))
        assert place_in_workgroup(made) == "gl_LocalInvocationIndex"


def test_one_invocation_has_its_row_alone() -> None:
    lines = folding(program(rows.softmax(), SOFTWARE))
    assert [line.split("(")[0] for line in lines] == [
        "float combine_add",
        "float combine_max",
    ]


@pytest.mark.parametrize(
    ("combine", "glsl", "value"),
    [
        ("add", "float", "float(0)"),
        ("mul", "int64_t", "int64_t(1)"),
        ("max", "float", "uintBitsToFloat(0xff800000u)"),
        ("min", "uint", "0xffffffffu"),
    ],
)
def test_fold_of_nothing(combine: str, glsl: str, value: str) -> None:
    assert identity(combine, glsl) == value
