"""What runs on a device stays there: no op reads back, forward or backward.

Where the size of a result depends on data, the host reads it; those few functions are
listed here with how often, and how many bytes.

An op reads when it is called. The gate drops the results uncomputed, so that it takes
all ops; the wide tier computes them.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.case import Case
from tests.cases import CASES
from vkbackend import Counters
from vkbackend.framework import ops
from vkbackend.framework.autograd.engine import backward
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.dispatch.op import REGISTRY

SEED = 3
READERS = (
    "nonzero",
    "true_coordinates",
    "true_elements",
    "counted_elements",
    "move",
)
"""Rows whose function reads: how many places there are; what goes to the host."""
ON_HOST = {
    "cholesky_factor", "cofactors", "determinant", "eig_factors", "eigenvalues",
    "eigh_factors", "extreme_singular_values", "general_eigenvalues", "inverse",
    "largest_singular_values", "least_squares_solution", "linear_solution",
    "log_determinant", "lu_factors", "matrix_exponential", "pivoted_lu_factors",
    "pivoted_solution",
    "pseudo_inverse", "qr_factors", "ranked_pseudo_inverse", "ranks",
    "singular_values", "svd_factors", "triangular_solution",
}  # fmt: skip
"""Rows of factorisations, which the host computes for a device too."""
BY_KERNEL = {
    "cholesky_factor", "determinant", "eigenvalues", "eigh_factors",
    "extreme_singular_values", "inverse", "largest_singular_values",
    "least_squares_solution", "linear_solution", "log_determinant",
    "matrix_exponential", "pivoted_lu_factors", "pivoted_solution",
    "pseudo_inverse", "qr_factors",
    "ranked_pseudo_inverse", "ranks", "singular_values", "svd_factors",
    "triangular_solution",
}  # fmt: skip
"""Those of them that a GPU computes; of the others it reads a check at least."""
COUNTED = ("chosen",)
"""Rows whose result has a size that a device counts, and the host reads."""
TESTED_FIRST = ("int_mm",)
"""Rows whose units are tested when a device first uses them, which the host reads."""


def dtype_of(name: str) -> str:
    """Return float32, or another dtype for an op that does not take it."""
    op, draws = REGISTRY[name], CASES[name].samples[0].draws
    taken: Any = op.device_dtypes or op.dtypes
    if isinstance(taken, dict):
        names = [each for each, draw in zip(op.tensors, draws) if draw.dtype is None]
        taken = taken.get(names[0]) or op.dtypes[names[0]]
    names = [dtype.name for dtype in taken]
    return "float32" if "float32" in names else names[0]


def arguments(name: str, place: GpuDevice) -> list[fw.Tensor]:
    """Return tensors for the first sample of a row; floats require a gradient."""
    rng, dtype = np.random.default_rng(SEED), dtype_of(name)
    made = [
        fw.tensor(draw.array(rng, dtype), draw.dtype or dtype, place)
        for draw in CASES[name].samples[0].draws
    ]
    return [each.requires_grad_(each.dtype.is_float) for each in made]


def results(call: Callable[[], Any]) -> tuple[fw.Tensor, ...]:
    """Return the tensors that a call answers with."""
    answer = call()
    return answer if isinstance(answer, tuple) else (answer,)


def reads(place: GpuDevice, earlier: Counters) -> tuple[int, int]:
    """Return how often the host has read since, and how many bytes."""
    since = place.gpu.counters.snapshot() - earlier
    return since.host_reads, since.host_read_bytes


@pytest.mark.parametrize("name", CASES)
def test_no_op_reads_back(name: str, gpu: GpuDevice) -> None:
    check_reads(name, gpu, lambda: None)


@pytest.mark.wide
@pytest.mark.parametrize("name", CASES)
def test_no_op_reads_back_computed(name: str, gpu: GpuDevice) -> None:
    check_reads(name, gpu, fw.eval)


def check_reads(name: str, gpu: GpuDevice, evaluate: Callable[[], None]) -> None:
    """Check what a call and its gradients read, and so their computation."""
    case: Case = CASES[name]
    inputs = arguments(name, gpu)
    keywords = case.samples[0].keywords
    try:
        if name in TESTED_FIRST:
            results(lambda: case.call(*inputs, **keywords))
            fw.eval()
        before = gpu.gpu.counters.snapshot()
        out, *_ = results(lambda: case.call(*inputs, **keywords))
        evaluate()
    except DTypeError as error:
        if not re.search(r" has no storage_\d+bit, which ", str(error)):
            raise
        pytest.skip(str(error))
    if name in READERS:
        assert reads(gpu, before)[0] == 1
        return
    assert out.is_gpu
    if name in ON_HOST:
        on_device = name in BY_KERNEL and gpu.gpu.info.target.cheap_barriers
        assert (reads(gpu, before)[0] == 0) == on_device
        return
    most = (1, 8) if name in COUNTED else (0, 0)
    assert reads(gpu, before) <= most, "forward"
    if not (case.gradient and out.requires_grad):
        return
    with fw.no_grad():
        weight = fw.rand_like(out)
    leaves = [each for each in inputs if each.requires_grad]
    first = backward([out], [weight], create_graph=case.twice, inputs=leaves)
    evaluate()
    assert reads(gpu, before) <= most, "backward"
    twice = [grad for grad in first if grad is not None and grad.requires_grad]
    for grad in twice:
        grad.sum().backward(retain_graph=True)
    evaluate()
    assert reads(gpu, before) <= most, "backward of backward"


def sized_by_data(place: GpuDevice) -> dict[str, Callable[[], Any]]:
    """Return calls whose results have as many elements as the data say."""
    x = fw.tensor(np.arange(12.0).reshape(3, 4) % 5, "float32", place)
    mask, few = x > 2, fw.tensor([1, 0, 2], "int32", place)
    values = fw.ones(4, device=place)

    def assign() -> fw.Tensor:
        x[mask] = values
        return x

    return {
        "x[mask]": lambda: x[mask],
        "x[mask] = several": assign,
        "masked_select": lambda: ops.masked_select(x, mask),
        "nonzero": lambda: ops.nonzero(x),
        "nonzero(as_tuple)": lambda: ops.nonzero(x, as_tuple=True),
        "unique(dim)": lambda: ops.unique(x, True, True, True, 0),
        "bincount": lambda: ops.bincount(few),
        "one_hot": lambda: ops.one_hot(few),
        "repeat_interleave": lambda: ops.repeat_interleave(few, few),
    }


# Times and bytes.
SIZED_BY_DATA = {
    "x[mask]": (1, 4),
    "x[mask] = several": (1, 4),
    "masked_select": (1, 4),
    "nonzero": (1, 4),
    "nonzero(as_tuple)": (1, 4),
    "unique(dim)": (1, 4),
    "bincount": (1, 8),  # the least number, which must not be below 0, and the largest
    "one_hot": (1, 4),  # without a number of classes: the largest
    "repeat_interleave": (1, 12),  # a tensor of repeats: all three
}


@pytest.mark.parametrize("name", SIZED_BY_DATA)
def test_only_the_size_is_read(name: str, gpu: GpuDevice) -> None:
    calls = sized_by_data(gpu)
    assert set(calls) == set(SIZED_BY_DATA)
    before = gpu.gpu.counters.snapshot()
    found = results(calls[name])
    fw.eval()
    assert all(out.is_gpu for out in found)
    assert reads(gpu, before) == SIZED_BY_DATA[name]


@pytest.mark.parametrize("name", ["where", "one value", "along a row", "known sizes"])
def test_masks_and_counts_that_need_no_size(name: str, gpu: GpuDevice) -> None:
    x = fw.tensor(np.arange(12.0).reshape(3, 4), "float32", gpu)
    mask, few = x > 2, fw.tensor([1, 0, 2], "int32", gpu)

    def set_to(value: Any) -> fw.Tensor:
        x[mask] = value
        return x

    calls: dict[str, Callable[[], Any]] = {
        "where": lambda: ops.masked_fill(x, mask, 0.0),
        "one value": lambda: set_to(7.0),
        "along a row": lambda: set_to(fw.ones(1, device=gpu)),
        "known sizes": lambda: (
            ops.one_hot(few, 3),
            ops.take_along_dim(x, few[:, None], 1),
        ),
    }
    before = gpu.gpu.counters.snapshot()
    found = results(calls[name])
    fw.eval()
    assert all(out.is_gpu for out in found)
    assert reads(gpu, before) == (0, 0)
