"""What the gate runs of a test's cases, and what it leaves to the wide tier."""

from itertools import product
from pathlib import Path

import pytest

from tests.gate_cases import LEAST, ParametrizedCase, further, left_out, spread

DTYPES = ("float32", "float16", "int32", "int64", "bool")
SIZES = (1, 2, 3, 5, 7, 11, 13)


def products(*markers: str) -> list[ParametrizedCase]:
    """Return a case of each size and each dtype, of two lists of parameters."""
    return [
        ParametrizedCase(
            {"size": size, "dtype": dtype}, {"size": m, "dtype": n}, frozenset(markers)
        )
        for (m, size), (n, dtype) in product(enumerate(SIZES), enumerate(DTYPES))
    ]


def rows(*arguments: dict[str, object], marker: str) -> list[ParametrizedCase]:
    """Return the cases of one list of rows."""
    return [
        ParametrizedCase(row, dict.fromkeys(row, number), frozenset({marker}))
        for number, row in enumerate(arguments)
    ]


def run(cases: list[ParametrizedCase], share: int = 1) -> list[ParametrizedCase]:
    left = left_out(cases, share)
    return [case for number, case in enumerate(cases) if number not in left]


@pytest.mark.parametrize("markers", [("device",), ("device", "core"), ("gpu",)])
def test_each_value_of_each_parameter_is_met_but_not_each_product(
    markers: tuple[str, ...],
) -> None:
    kept = run(products(*markers))
    assert {case.arguments["size"] for case in kept} == set(SIZES)
    assert {case.arguments["dtype"] for case in kept} == set(DTYPES)
    assert len(kept) < len(SIZES) + len(DTYPES)


def test_the_cases_of_one_parameter_are_all_run() -> None:
    cases = rows(*({"op": str(number)} for number in range(50)), marker="device")
    assert run(cases) == cases


def test_what_needs_no_device_is_all_run() -> None:
    assert not left_out(products("null"))
    assert not left_out([])


def test_rows_are_told_apart_by_what_can_be_compared() -> None:
    arguments = [
        {"op": op, "shape": shape, "sample": object()}
        for op in "abcdefgh"
        for shape in ((2, 3), (1,), ())
    ]
    kept = run(rows(*arguments, marker="device"))
    assert {case.arguments["op"] for case in kept} == set("abcdefgh")
    assert {case.arguments["shape"] for case in kept} == {(2, 3), (1,), ()}
    assert len(kept) < 16
    # Of objects alone nothing says that one stands for another.
    alone = rows(*({"sample": object()} for _ in range(20)), marker="device")
    assert run(alone) == alone


def test_a_few_are_run_where_the_values_need_fewer() -> None:
    arguments = [{"op": "add", "sample": object()} for _ in range(30)]
    kept = run(rows(*arguments, marker="device"))
    assert len(kept) == LEAST
    # They are spread, not the first ones.
    assert any(case.rows["op"] >= 15 for case in kept)
    assert not left_out(rows(*arguments[:LEAST], marker="device"))


def test_core_meets_the_values_by_itself_and_for_the_others() -> None:
    core, others = products("device", "core"), products("device")
    kept = run([*others, *core])
    assert all("core" in case.markers for case in kept)
    assert kept == run(core)
    # A value that only the others have.
    more = ParametrizedCase(
        {"size": 17, "dtype": "bool"}, {"size": 7, "dtype": 4}, frozenset({"device"})
    )
    assert run([*others, more, *core]) == [more, *kept]


def test_what_hardware_alone_runs_stands_for_nothing_elsewhere() -> None:
    hardware, anywhere = products("gpu"), products("device")
    kept = run([*hardware, *anywhere])
    assert [case for case in kept if "device" in case.markers] == run(anywhere)
    assert {case.arguments["size"] for case in kept if "gpu" in case.markers} == {
        *SIZES
    }


@pytest.mark.parametrize("markers", [("null",), ("device",)])
@pytest.mark.parametrize("share", [2, 3, 5])
def test_a_share_is_of_each_tier_whatever_the_values(
    markers: tuple[str, ...], share: int
) -> None:
    cases = rows(*({"op": str(number)} for number in range(60)), marker=markers[0])
    assert len(run(cases, share)) == pytest.approx(60 / share, abs=2)
    few = [*cases[:1], ParametrizedCase({"op": "x"}, {"op": 60}, frozenset({"core"}))]
    assert run(few, share) == few


@pytest.mark.parametrize("period", range(1, 9))
def test_a_share_meets_each_value_of_a_parameter_that_comes_again(period: int) -> None:
    assert 0 in spread(1, 4)
    assert {number % period for number in spread(100, 4)} == set(range(period))


def test_all_but_the_first_case_of_a_tier_are_further_ones() -> None:
    cases = [*products("device"), *products("device", "core")]
    left = left_out(cases)
    found = further(cases, left)
    assert left <= found
    assert {0, len(cases) // 2} == {*range(len(cases))} - further(cases, ())
    tiers = [case.markers for n, case in enumerate(cases) if n not in found]
    assert tiers == [frozenset({"device", "core"})]


@pytest.mark.checkout
def test_long_tests_are_there() -> None:
    root = Path(__file__).parents[1]
    names = (root / "tests/data/long_tests.txt").read_text().splitlines()
    assert names == sorted(set(names))
    sources = {name: (root / name.partition("::")[0]).read_text() for name in names}
    missing = [
        name
        for name in names
        if f"def {name.partition('::')[2].partition('[')[0]}(" not in sources[name]
    ]
    assert missing == []
