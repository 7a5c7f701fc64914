"""Parts of unequal size: ties, NaN, and sizes that grow."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import Make
from vkbackend.framework import ops


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((1, 1, 5, 7)),
        np.full((1, 1, 5, 7), -np.inf),
        np.where(np.arange(35) % 3 == 0, np.nan, 1.0).reshape(1, 1, 5, 7),
        (np.arange(70) % 4).reshape(1, 2, 5, 7),
    ],
    ids=["equal", "minus infinity", "nan", "repeating"],
)
@pytest.mark.parametrize("size", [(2, 3), (4, 5), (8, 9)])
def test_choice_is_as_in_torch(
    data: np.ndarray, size: tuple[int, int], make: Make
) -> None:
    data = data.astype(np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    found, wanted = ops.adaptive_max_pool2d(x, size), F.adaptive_max_pool2d(twin, size)
    assert_close(found, wanted.detach().numpy(), exact=True)
    weights = np.arange(found.numel(), dtype=np.float32).reshape(found.shape)
    found.backward(make(weights))
    wanted.backward(torch.from_numpy(weights))
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy(), exact=True)


def test_parts_of_equal_size_are_plain_windows(make: Make) -> None:
    x = make(np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4))
    found = ops.adaptive_max_pool2d(x, 2)
    assert found.tolist() == ops.max_pool2d(x, 2).tolist()
    assert isinstance(found, fw.Tensor)
