"""Connectionist temporal classification beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

# Classes and positions are int64, as in PyTorch.
pytestmark = pytest.mark.int64

LABELS = np.array([[2, 2, 1], [3, 1, 4], [1, 4, 4], [4, 3, 2]])
# One target is empty; of the second row of lengths one does not fit, one has no step.
POSSIBLE = ([9, 7, 5, 4], [3, 2, 0, 3])
IMPOSSIBLE = ([9, 7, 2, 0], [3, 2, 3, 0])


@pytest.mark.parametrize("layout", ["padded", "joined"])
@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        (POSSIBLE, {}),
        (POSSIBLE, {"reduction": "none", "blank": 0}),
        (IMPOSSIBLE, {"reduction": "sum", "zero_infinity": True}),
        (IMPOSSIBLE, {"reduction": "none"}),
    ],
)
def test_is_as_in_torch(
    layout: str, lengths: tuple[Any, Any], options: dict[str, Any], place: Device
) -> None:
    logits = drawn(9, 4, 5)
    steps, sizes = lengths
    targets = LABELS
    if layout == "joined":
        targets = np.concatenate([row[:n] for row, n in zip(LABELS, sizes)])
    other = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.functional.ctc_loss(
        torch.log_softmax(other, -1),
        torch.tensor(targets),
        torch.tensor(steps),
        torch.tensor(sizes),
        **options,
    )
    x = fw.tensor(logits, device=place, requires_grad=True)
    found = F.ctc_loss(
        F.log_softmax(x, -1),
        fw.tensor(targets, device=place),
        fw.tensor(steps, device=place),
        sizes,
        **options,
    )
    assert_close(found, expected.detach().numpy(), scale=4)
    expected.sum().backward()
    found.sum().backward()
    assert other.grad is not None
    assert_close(x.grad, other.grad.numpy(), scale=4)  # a chain of logarithms of sums


def test_one_sequence(place: Device) -> None:
    x = drawn(6, 3)
    log_probs = np.log(np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    arguments = [np.array([1, 1]), np.array(6), np.array(2)]
    expected = torch.nn.functional.ctc_loss(
        torch.tensor(log_probs), *map(torch.tensor, arguments), reduction="none"
    )
    given = (fw.tensor(each, device=place) for each in (log_probs, *arguments))
    assert_close(F.ctc_loss(*given, reduction="none"), expected.numpy(), scale=4)


def test_many_labels_and_steps(place: Device) -> None:
    """More states than invocations take at once."""
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.ones(7), (230, 2))).astype(np.float32)
    labels, steps, sizes = rng.integers(1, 7, (2, 90)), [230, 200], [90, 77]
    expected = torch.nn.functional.ctc_loss(
        torch.tensor(log_probs), torch.tensor(labels), steps, sizes, reduction="none"
    )
    given = (fw.tensor(each, device=place) for each in (log_probs, labels))
    found = F.ctc_loss(*given, steps, sizes, reduction="none")
    assert_close(found, expected.numpy(), scale=32)  # a chain of 230 rounded sums


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"blank": 5}, ShapeError, "blank 5"),
        ({"input_lengths": [10, 9]}, ShapeError, "from 9 to 10; .* at most 9"),
        ({"input_lengths": [9]}, ShapeError, "there are 1 input_lengths"),
        ({"target_lengths": [4, 1]}, ShapeError, "a target has 4 labels"),
        ({"targets": fw.ones(5, dtype="int64")}, ShapeError, "5 labels, .* up to 4"),
        ({"targets": fw.ones((2, 3))}, DTypeError, "targets are float32"),
        ({"reduction": "all"}, ShapeError, "reduction is 'all'"),
    ],
)
def test_bad_arguments(options: Any, error: type[Exception], text: str) -> None:
    given: dict[str, Any] = {
        "log_probs": fw.zeros((9, 2, 5)),
        "targets": fw.ones((2, 3), dtype="int64"),
        "input_lengths": [9, 9],
        "target_lengths": [3, 1],
    }
    with pytest.raises(error, match=f"^ctc_loss: .*{text}"):
        F.ctc_loss(**(given | options))
