"""Calls of every function that are replayed give what first calls give."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.errors import Error
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep.forms import flatten
from vkbackend.tools.bench.sweep.plan import FORWARD, SweepCase, cases
from vkbackend.tools.bench.sweep.sides import (
    Here,
    Inputs,
    NoGradientError,
    bound,
    side_of,
)
from vkbackend.tools.bench.sweep.units import units

SMALL = cases(units(), "small")

_WARM = 3
"""Calls on other elements: the first is checked, the second recorded."""


def _elements(tensor: fw.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype is fw.bfloat16 else tensor).numpy()


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", SMALL, ids=lambda c: f"{c.title} {c.dtype}")
def test_a_replay_is_a_first_call(case: SweepCase, place: Any) -> None:
    here = Here(place)
    inputs = Inputs(here, side_of(Peer("numpy")), on_gpu=False)
    runs = bound(here, 0, case.unit, case.arguments, case.dtype, inputs)
    assert runs is not None
    run = runs[0] if case.direction == FORWARD else runs[1]
    given = [inputs.of(each, case.dtype)[0] for each in flatten(case.arguments)]
    changing = [each for each in given if each.dtype.is_float or each.dtype.is_complex]
    first = [each.detach().clone() for each in changing]
    # Positive, definite, sorted and likely numbers stay that.
    others = [each * 0.75 for each in first]

    def put(contents: list[fw.Tensor]) -> None:
        with fw.no_grad():
            for tensor, content in zip(changing, contents, strict=True):
                tensor.copy_(content)

    put(others)
    fw.manual_seed(3)
    try:
        wanted = [_elements(each) for each in run()]
    except (NoGradientError, Error) as error:
        pytest.skip(f"it is refused: {error}")
    put(first)
    for _ in range(_WARM):
        fw.eval(*run())
    put(others)
    fw.manual_seed(3)
    found = [_elements(each) for each in run()]
    assert len(found) == len(wanted)
    for mine, each in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, each)
