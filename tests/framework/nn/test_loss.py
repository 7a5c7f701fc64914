"""Losses as layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum", "label_smoothing": 0.1},
        {"reduction": "none", "ignore_index": 2},
    ],
)
def test_cross_entropy(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    logits = rng.normal(size=(11, 5)).astype(np.float32)
    labels = rng.integers(0, 5, 11).astype(np.int32)
    expected_x = torch.tensor(logits, requires_grad=True)
    found_x = fw.tensor(logits, device=place, requires_grad=True)
    expected = torch.nn.CrossEntropyLoss(**options)(
        expected_x, torch.tensor(labels.astype(np.int64))
    )
    found = nn.CrossEntropyLoss(**options)(found_x, fw.tensor(labels, device=place))
    assert_close(found, expected.detach().numpy())
    expected.sum().backward()
    found.sum().backward()
    assert expected_x.grad is not None
    assert_close(found_x.grad, expected_x.grad.numpy())


# Layers, whether targets are probabilities, and options.
PAIRS: list[tuple[str, bool, dict[str, Any]]] = [
    ("MSELoss", False, {}),
    ("L1Loss", False, {"reduction": "sum"}),
    ("SmoothL1Loss", False, {"beta": 0.5}),
    ("HuberLoss", False, {"delta": 0.5, "reduction": "none"}),
    ("KLDivLoss", True, {"reduction": "batchmean"}),
    ("BCELoss", True, {"weight": [0.5, 1.0, 2.0]}),
    ("BCEWithLogitsLoss", True, {"pos_weight": [0.5, 1.0, 2.0]}),
]


@pytest.mark.parametrize(("name", "probable", "options"), PAIRS)
def test_is_as_in_torch(
    name: str,
    probable: bool,
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> None:
    x = rng.uniform(0.05, 0.95, (7, 3)).astype(np.float32)
    target = rng.uniform(*((0, 1) if probable else (-2, 2)), (7, 3))
    target = target.astype(np.float32)

    def built(source: Any, tensor: Any) -> Any:
        given = {k: tensor(v) if isinstance(v, list) else v for k, v in options.items()}
        return getattr(source, name)(**given)

    theirs, ours = built(torch.nn, torch.tensor), built(nn, fw.tensor)
    ours.to(place)
    expected = theirs(torch.tensor(x), torch.tensor(target))
    found = ours(fw.tensor(x, device=place), fw.tensor(target, device=place))
    assert_close(found, expected.numpy(), scale=4)
    assert set(ours.state_dict()) == set(theirs.state_dict())


@pytest.mark.parametrize("name", ["NLLLoss", "CrossEntropyLoss"])
def test_class_weights(name: str, place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(11, 3)).astype(np.float32)
    labels, weight = rng.integers(0, 3, 11), [0.5, 1.0, 2.0]
    expected = getattr(torch.nn, name)(torch.tensor(weight))(
        torch.tensor(x), torch.tensor(labels)
    )
    layer = getattr(nn, name)(fw.tensor(weight)).to(place)
    found = layer(fw.tensor(x, device=place), fw.tensor(labels, device=place))
    assert_close(found, expected.numpy(), scale=4)


def test_losses_of_signs(place: Device, rng: np.random.Generator) -> None:
    x1, x2 = rng.normal(size=(2, 7, 3)).astype(np.float32)
    signs = np.sign(rng.normal(size=(7, 3))).astype(np.float32)
    for name, margin, inputs in (
        ("HingeEmbeddingLoss", 0.7, (x1, signs)),
        ("MarginRankingLoss", 0.3, (x1, x2, signs)),
    ):
        expected = getattr(torch.nn, name)(margin)(*map(torch.tensor, inputs))
        layer = getattr(nn, name)(margin)
        found = layer(*(fw.tensor(each, device=place) for each in inputs))
        assert_close(found, expected.numpy(), scale=4)


def test_unknown_reduction() -> None:
    with pytest.raises(ShapeError, match="MSELoss: reduction is 'batchmean'"):
        nn.MSELoss(reduction="batchmean")


def test_losses_of_distributions(place: Device, rng: np.random.Generator) -> None:
    x, target, spread = rng.uniform(0.1, 1, (3, 7, 3)).astype(np.float32)
    for name, options, inputs in (
        ("PoissonNLLLoss", {"log_input": False, "full": True}, (x, target)),
        ("GaussianNLLLoss", {"full": True, "reduction": "sum"}, (x, target, spread)),
    ):
        given: dict[str, Any] = options
        expected = getattr(torch.nn, name)(**given)(*map(torch.tensor, inputs))
        layer = getattr(nn, name)(**given)
        found = layer(*(fw.tensor(each, device=place) for each in inputs))
        assert_close(found, expected.numpy(), scale=8)


@pytest.mark.int64
def test_ctc(place: Device) -> None:
    log_probs = np.log(np.full((4, 1, 3), 1 / 3, np.float32))
    given = np.array([[1, 2]]), np.array([4]), np.array([2])
    expected = torch.nn.CTCLoss()(torch.tensor(log_probs), *map(torch.tensor, given))
    arrays = (fw.tensor(each, device=place) for each in (log_probs, *given))
    assert_close(nn.CTCLoss()(*arrays), expected.numpy(), scale=4)


def test_older_flags_and_names() -> None:
    with pytest.warns(UserWarning, match="reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.raises(TypeError, match="HuberLoss: delta is 1j"):
        nn.HuberLoss(delta=1j)  # type: ignore[arg-type]  # refused
    with pytest.warns(FutureWarning, match="NLLLoss2d is deprecated"):
        layer = nn.NLLLoss2d(ignore_index=1)
    x = fw.log_softmax(fw.ones((1, 3, 2, 2)), 1)
    labels = fw.tensor([[[0, 1], [1, 2]]])
    assert_close(layer(x, labels), np.float32(np.log(3)), scale=2)


@pytest.mark.torch213
def test_linear_and_cross_entropy(place: Device, rng: np.random.Generator) -> None:
    options: dict[str, Any] = {"out_features": (2,), "bias": True, "ignore_index": 1}
    theirs = torch.nn.LinearCrossEntropyLoss(5, 3, **options)
    ours = nn.LinearCrossEntropyLoss(5, 3, **options)
    assert repr(ours) == repr(theirs)
    state = {key: fw.tensor(each.numpy()) for key, each in theirs.state_dict().items()}
    ours.load_state_dict(state)
    x = rng.normal(size=(4, 5)).astype(np.float32)
    labels = rng.integers(0, 3, (4, 2))
    expected = theirs(torch.tensor(x), torch.tensor(labels))
    given = (fw.tensor(each, device=place) for each in (x, labels))
    assert_close(ours.to(place)(*given), expected.detach().numpy(), scale=4)
    with pytest.raises(ShapeError, match="weight is"):
        nn.LinearCrossEntropyLoss(5, 3, weight=fw.ones(2))
