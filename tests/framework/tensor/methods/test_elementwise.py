"""Methods for functions of each element alone."""

import numpy as np
import pytest

from tests.framework.tensor.methods.calls import (
    POSITIVE,
    SMALL,
    WHOLE,
    X,
    agree,
    public,
)
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import UnaryMethods

NAMES = sorted(public(UnaryMethods))


def domain(name: str) -> np.ndarray:
    """Return numbers for which a function has a result."""
    if name == "bitwise_not":
        return WHOLE
    if name.startswith(("log", "acosh", "sqrt", "rsqrt")):
        return POSITIVE
    return SMALL if name in ("asin", "acos", "atanh") else X


@pytest.mark.parametrize("name", [name for name in NAMES if name != "prelu"])
def test_method(name: str, place: Device) -> None:
    agree(lambda x, t: getattr(x, name)(), domain(name), place)


def test_prelu(place: Device) -> None:
    agree(lambda x, t: x.prelu(t([0.25])), X, place)
