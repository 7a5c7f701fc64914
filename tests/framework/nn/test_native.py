"""The functions that PyTorch also has as torch.name."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import Fixed, beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

X, TARGET, IMAGE = drawn(4, 5), drawn(4, 5, seed=1), drawn(2, 4, 5, 6)
SIGNS = Fixed(np.sign(drawn(4)))
SCALE, SHIFT = drawn(4), drawn(4, seed=1)
INDEX = np.array([1, 3, 0, 1, 2])

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("batch_norm", (IMAGE, SCALE, SHIFT, None, None, True, 0.1, 1e-3, True)),
    ("instance_norm", (IMAGE, SCALE, SHIFT, None, None, True, 0.1, 1e-3, True)),
    ("layer_norm", (IMAGE, [5, 6], None, None, 1e-3, False)),
    ("group_norm", (IMAGE, 2, SCALE, SHIFT, 1e-3, False)),
    ("rms_norm", (IMAGE, [6])),
    ("dropout", (X, 0.5, False)),
    ("feature_dropout", (X, 0.5, False)),
    ("alpha_dropout", (X, 0.5, False)),
    ("feature_alpha_dropout", (X, 0.5, False)),
    ("embedding", (X, INDEX)),
    ("constant_pad_nd", (X, (1, 2), 3.0)),
    ("grid_sampler", (IMAGE, drawn(2, 3, 3, 2) * 0.5, 0, 1, True)),
    ("affine_grid_generator", (drawn(2, 2, 3), [2, 1, 3, 4], False)),
    ("rrelu", (X, 0.1, 0.2)),
    ("binary_cross_entropy_with_logits", (X, TARGET, None, None, 2)),
    ("kl_div", (X, TARGET, 1)),
    ("hinge_embedding_loss", (X[:, 0], SIGNS, 1.0, 0)),
    ("margin_ranking_loss", (X[:, 0], X[:, 1], SIGNS, 0.5, 1)),
    ("cosine_embedding_loss", (X, TARGET, SIGNS, 0.1, 0)),
    ("poisson_nll_loss", (X, Fixed(TARGET), True, False, 1e-8, 1)),
    ("triplet_margin_loss", (X, TARGET, drawn(4, 5, seed=2))),
    ("conv1d", (drawn(2, 4, 5), drawn(3, 4, 2))),
    ("max_pool2d", (IMAGE, 2)),
    ("threshold", (X, 0.1, 2.0)),
    ("pixel_shuffle", (IMAGE, 2)),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_is_as_in_torch(name: str, arguments: tuple[Any, ...]) -> None:
    beside(name, fw.device("cpu"), *arguments, module=fw, twin=torch, scale=16)


@pytest.mark.int64
def test_ctc(place: Device) -> None:
    log_probs = Fixed(np.log(np.full((4, 1, 3), 1 / 3, np.float32)))
    given = (np.array([[1, 2]]), np.array([4]), np.array([2]))
    beside("ctc_loss", place, log_probs, *given, 0, 2, module=fw, twin=torch)


@pytest.mark.int64
def test_bags(place: Device) -> None:
    arguments = X, INDEX, np.array([0, 2])
    expected = torch.embedding_bag(*map(torch.tensor, arguments), False, 1)[0]
    given = (fw.tensor(each, device=place) for each in arguments)
    found = fw.embedding_bag(*given, False, 1)
    np.testing.assert_allclose(found[0].numpy(), expected.numpy(), rtol=1e-6)
    assert len(found) == 4


def test_in_place(place: Device) -> None:
    for name in ("dropout_", "alpha_dropout_", "feature_dropout_"):
        x = fw.ones((40, 50), device=place)
        assert getattr(fw, name)(x, 0.5, True) is x
        assert len(np.unique(x.numpy())) == 2
    x = fw.ones((50, 40, 2), device=place)
    rows = fw.feature_alpha_dropout_(x, 0.5, True).numpy()
    assert (rows[..., 0] == rows[..., 1]).all()
    rows = fw.feature_dropout(fw.ones((50, 40, 2)), 0.5, True).numpy()
    assert (rows[..., 0] == rows[..., 1]).all()
    table = fw.full((3, 4), 2.0, device=place)
    assert fw.embedding_renorm_(table, fw.tensor([1], device=place), 1.0, 2.0) is table
    lengths = np.linalg.norm(table.numpy(), axis=1)
    np.testing.assert_allclose(lengths, [4, 1, 4], rtol=1e-5)


def test_bad_arguments() -> None:
    with pytest.raises(ShapeError, match="kl_div: reduction is 3; it must be one of"):
        fw.kl_div(fw.ones(3), fw.ones(3), 3)
    with pytest.raises(ShapeError, match="feature_dropout: input is"):
        fw.feature_dropout(fw.ones(3), 0.5, True)
