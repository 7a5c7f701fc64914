"""Pooling over volumes."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.errors import ShapeError

X = (2, 3, 5, 6, 7)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("max_pool3d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    (
        "max_pool3d",
        {"kernel_size": (2, 3, 1), "stride": (1, 2, 3), "dilation": (2, 1, 1)},
    ),
    ("max_pool3d", {"kernel_size": 2}),
    ("max_pool3d", {"kernel_size": (1, 2, 3), "stride": (2, 3, 3), "ceil_mode": True}),
    ("avg_pool3d", {"kernel_size": (3, 2, 2), "stride": 2, "padding": 1}),
    (
        "avg_pool3d",
        {
            "kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True,
            "count_include_pad": False,
        },
    ),
    ("avg_pool3d", {"kernel_size": 2, "divisor_override": 3}),
    ("adaptive_avg_pool3d", {"output_size": (3, None, 4)}),
    ("adaptive_max_pool3d", {"output_size": (3, 2, 4)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), CALLS)
def test_result_and_gradients(name: str, options: dict[str, Any], make: Make) -> None:
    as_in_torch(make, getattr(ops, name), getattr(F, name), X[1:], **options)


def test_positions_of_equals_and_nan(make: Make) -> None:
    x = draw(*X).round(1)
    x[0, 0, 1:3, 2:4, 3] = np.nan
    expected = F.max_pool3d(torch.tensor(x), 2, 1, return_indices=True)[1]
    found = ops.max_pool3d_with_indices(make(x), 2, 1)[1]
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    expected = F.adaptive_max_pool3d(torch.tensor(x), 2, return_indices=True)[1]
    found = ops.adaptive_max_pool3d_with_indices(make(x), 2)[1]
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_no_volumes(make: Make) -> None:
    x = make(np.empty((0, 3, 4, 4, 4), np.float32))
    for out in (ops.max_pool3d(x, 2), ops.adaptive_max_pool3d(x, 3)):
        assert out.numpy().shape == (0, 3, *(out.shape[2:]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.max_pool3d(x[0, 0], 2), "max_pool3d: x is"),
        (lambda x: ops.max_pool3d(x, 2, padding=2), "at most half of the kernel"),
        (lambda x: ops.avg_pool3d(x, 9), "does not fit"),
        (lambda x: ops.avg_pool3d(x, 2, divisor_override=0), "divisor_override is 0"),
        (lambda x: ops.adaptive_avg_pool3d(x, (1, 2)), r"output_size is \(1, 2\)"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call(fw.ones(X))


def test_one_kernel_compares_a_window(device: vkbackend.Device) -> None:
    """Then positions become int64; with gradients where windows are apart."""
    x = fw.rand(2, 4, 6, 6, device=fw.device(device.name))
    taped = fw.rand(2, 4, 6, 6, device=x.device).requires_grad_()
    calls = [(x, 2, 2), (x, 3, 1), (taped, 2, 2)]
    fw.eval(x, taped)
    for given, kernel, stride in calls:
        before = device.counters.snapshot()
        fw.eval(*ops.max_pool3d_with_indices(given, kernel, stride))
        assert (device.counters.snapshot() - before).dispatches <= 2
