"""Cases of large sizes, with few elements: their closed forms, and wrong results."""

from typing import Any

import pytest

from tests import large_sizes
from tests.large_case import CASES, LargeCase, Work, WrongResultError, mod
from vkbackend.framework.base.size_limits import MOST_COUNTED


def test_elements_that_fit() -> None:
    case = LargeCase("f", lambda work: None, ("float32",), 2, 8, 8, ())
    limits: list[tuple[Any, int]] = [
        ((1 << 40, 1 << 40, MOST_COUNTED), MOST_COUNTED // 2),
        ((1600, 1 << 40, MOST_COUNTED), 100),
        ((1 << 40, 1600, MOST_COUNTED), 200),
        ((1 << 40, 1 << 40, 7), 7),
    ]
    for given, wanted in limits:
        assert large_sizes.elements(case, "float32", *given) == wanted


def test_one_wrong_place_is_found(gpu: Any) -> None:
    work = Work(gpu, "uint8", 1000)
    x = work.pattern()
    work.check("x", x, mod)
    x[work.borders()[-1] + 1] = 3
    with pytest.raises(WrongResultError, match=r"^x at 998: .* 3\.0\] in place of "):
        work.check("x", x, mod)


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_closed_forms(case: LargeCase, gpu: Any) -> None:
    for dtype in case.dtypes:
        case.run(Work(gpu, dtype, 100_000), *case.numbers)
