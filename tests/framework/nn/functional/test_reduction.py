"""Reduction of losses, and the older flags for it."""

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name
from vkbackend.framework.nn.functional.reduction import (
    chosen_reduction,
    reduced_loss,
    weighted_loss,
)


@pytest.mark.parametrize("average", [None, True, False])
@pytest.mark.parametrize("reduce", [None, True, False])
def test_flags(average: bool | None, reduce: bool | None) -> None:
    if average is None and reduce is None:
        assert chosen_reduction(None, None, "sum") == "sum"
        return
    x = [1.0, 2.0, 4.0]
    with pytest.warns(UserWarning, match="size_average and reduce"):
        expected = torch.nn.functional.mse_loss(
            torch.tensor(x), torch.zeros(3), average, reduce
        )
    with pytest.warns(UserWarning, match="size_average and reduce"):
        found = F.mse_loss(fw.tensor(x), fw.zeros(3), average, reduce)
    assert found.tolist() == expected.tolist()


def test_weights() -> None:
    losses, weight = fw.tensor([1.0, 2.0]), fw.tensor([1.0, 3.0])
    found = [
        weighted_loss("loss", losses, weight, "mean", by_weight=by).item()
        for by in (True, False)
    ]
    assert found == [1.75, 3.5]
    with pytest.raises(ShapeError, match=r"loss: weight is \(2,\); it must be \(3,\)"):
        weighted_loss("loss", fw.ones(3), weight, "mean", by_weight=True)
    with pytest.raises(ShapeError, match="loss: reduction is 'max'"):
        reduced_loss("loss", losses, "max")
