"""Methods for functions of the elements along dimensions."""

import numpy as np
import pytest

from tests.framework.tensor.methods.calls import (
    POSITIVE,
    TRUTH,
    WHOLE,
    Call,
    X,
    agree,
    public,
)
from vkbackend.framework.base.device import Device
from vkbackend.framework.tensor.methods import ReductionMethods

HOLES = np.where(TRUTH, X, np.float32(np.nan))

CALLS: dict[str, Call] = {
    "sum": lambda x, t: (x.sum(), x.sum(1), x.sum((0, 1), keepdim=True)),
    "mean": lambda x, t: (x.mean(), x.mean(0, keepdim=True)),
    "prod": lambda x, t: (x.prod(), x.prod(1)),
    "nansum": lambda x, t: (x.nansum(), t(HOLES).nansum(1)),
    "nanmean": lambda x, t: (x.nanmean(), t(HOLES).nanmean(0), t(HOLES).nanmean(1)),
    "amax": lambda x, t: (x.amax(), x.amax(1, keepdim=True)),
    "amin": lambda x, t: (x.amin(), x.amin((0, 1))),
    "all": lambda x, t: (x.all(), t(TRUTH).all(1)),
    "any": lambda x, t: (x.any(), t(TRUTH).any(0, keepdim=True)),
    "logsumexp": lambda x, t: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True)),
    "argmax": lambda x, t: (x.argmax(), x.argmax(1, keepdim=True)),
    "argmin": lambda x, t: (x.argmin(), x.argmin(0)),
    "max": lambda x, t: (x.max(), *x.max(1), *x.max(0, True), x.max(t(X) * 2)),
    "min": lambda x, t: (x.min(), *x.min(1), *x.min(0, True), x.min(t(X) * 2)),
    "median": lambda x, t: (x.median(), *x.median(1)),
    "var": lambda x, t: (x.var(), x.var(1), x.var(1, correction=0, keepdim=True)),
    "std": lambda x, t: (x.std(), x.std(0), x.std(1, correction=0)),
    "norm": lambda x, t: (x.norm(), x.norm(1), x.norm(3, 1), x.norm(dim=0)),
    "count_nonzero": lambda x, t: (x.count_nonzero(), t(TRUTH).count_nonzero(1)),
    "cumsum": lambda x, t: (x.cumsum(0), x.cumsum(1)),
    "cumprod": lambda x, t: (x.cumprod(0), x.cumprod(-1)),
    "diff": lambda x, t: (x.diff(), x.diff(2), x.diff(1, 0)),
    "trace": lambda x, t: x.trace(),
    "softmax": lambda x, t: (x.softmax(0), x.softmax(-1)),
    "log_softmax": lambda x, t: (x.log_softmax(0), x.log_softmax(-1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], X, place, scale=4 if name == "norm" else 1)  # powers


def test_every_method_has_a_row() -> None:
    assert public(ReductionMethods) == set(CALLS)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "cumsum", "softmax"])
def test_dtype_to_compute_in(name: str, place: Device) -> None:
    dims = (0,) if name in ("cumsum", "softmax") else ()

    def call(x: object, t: object) -> object:
        # Each library's own float32, by what it makes of fractions.
        kind = t(POSITIVE).dtype  # type: ignore[operator]
        return getattr(x, name)(*dims, dtype=kind)

    agree(call, WHOLE, place)
