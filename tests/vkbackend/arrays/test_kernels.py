"""Which kernels the operations of a command batch run."""

import re
from itertools import pairwise

import pytest

from vkbackend.arrays.kernels import (
    DOT_CHUNK,
    ELEMENT_OPERATIONS,
    MAX_WORKGROUPS,
    PAIR_OPERATIONS,
    dot_runs,
    element_run,
    pair_run,
)
from vkbackend.shader import compiler


@pytest.mark.parametrize(
    ("kernel", "names"),
    [("arrays/unary", ELEMENT_OPERATIONS), ("arrays/binary", PAIR_OPERATIONS)],
)
def test_shaders_number_operations_alike(kernel: str, names: tuple[str, ...]) -> None:
    source, _ = compiler.load_kernel_source(kernel)
    found = re.findall(r"const uint ([A-Z]+) = (\d+);", source)
    numbers = {name.lower(): int(number) for name, number in found}
    numbers.pop("operation")
    assert numbers == {name: number for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("count", "stages"),
    [
        (1, 1),
        (DOT_CHUNK, 1),
        (DOT_CHUNK + 1, 2),
        (DOT_CHUNK**2, 2),
        (DOT_CHUNK**2 + 1, 3),
    ],
)
def test_dot_takes_as_many_stages_as_it_needs(count: int, stages: int) -> None:
    runs = dot_runs(count, False)
    assert len(runs) == stages
    assert [run.constants["PRODUCTS"] for run in runs] == [1] + [0] * (stages - 1)
    for early, late in pairwise(runs):
        assert early.memory["out_"] == late.memory["x"]
        assert early.scratch == {late.memory["x"]: 4 * late.scalars["count"]}
    assert runs[-1].memory["out_"] == "out"


def test_float16_sums_stay_float32_between_stages() -> None:
    first, middle, last = (set(run.defines) for run in dot_runs(DOT_CHUNK**2 + 1, True))
    assert first == {"DTYPE", "OUT_ACC"}
    assert middle == {"DTYPE", "IN_ACC", "OUT_ACC"}
    assert last == {"DTYPE", "IN_ACC"}


def test_large_grids_fold_into_y() -> None:
    count = 256 * MAX_WORKGROUPS + 1
    for run in (pair_run("add", count, False), element_run("relu", count, False, 1.0)):
        x, y, z = run.groups
        assert max(x, y) <= MAX_WORKGROUPS
        assert (y, z) == (2, 1)
        assert x * y * 256 >= count
