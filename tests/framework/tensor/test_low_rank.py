"""Singular values of matrices of low rank are those of PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


def low(*shape: int) -> np.ndarray:
    """Return matrices of rank 3."""
    rng, (*batch, rows, columns) = np.random.default_rng(0), shape
    left, right = rng.normal(size=(*batch, rows, 3)), rng.normal(size=(3, columns))
    return (left @ right).astype(np.float32)


@pytest.mark.parametrize("shape", [(9, 5), (2, 5, 9)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("svd_lowrank", {"q": 4}),
        ("svd_lowrank", {"M": 0.5}),
        ("pca_lowrank", {}),
        ("pca_lowrank", {"q": 3, "center": False}),
    ],
)
def test_factors(
    shape: tuple[int, ...], name: str, options: dict[str, Any], place: Device
) -> None:
    x, products, values = low(*shape), [], []
    for module, at in ((fw, place), (torch, "cpu")):
        given = {
            key: module.full(shape, each, device=at) if key == "M" else each
            for key, each in options.items()
        }
        u, s, v = getattr(module, name)(module.tensor(x, device=at), **given)
        products.append(((u * s.unsqueeze(-2)) @ v.mT).cpu().numpy())
        values.append(s.cpu().numpy())
    np.testing.assert_allclose(*values, atol=1e-4)
    np.testing.assert_allclose(*products, atol=1e-4)


@pytest.mark.filterwarnings("ignore:torch.sparse")
@pytest.mark.parametrize("name", ["svd_lowrank", "pca_lowrank"])
def test_sparse_matrices(name: str) -> None:
    x = np.where(np.abs(low(9, 5)) > 1, low(9, 5), 0)
    found, expected = (
        getattr(module, name)(module.tensor(x).to_sparse(), q=5)[1].numpy()
        for module in (fw, torch)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_gradients() -> None:
    found = []
    for module in (fw, torch):
        x = module.tensor(low(9, 5), requires_grad=True)
        module.svd_lowrank(x, q=3)[1].sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, atol=1e-4)


def test_bad_arguments() -> None:
    with pytest.raises(ShapeError, match="two dimensions or more"):
        fw.svd_lowrank(fw.ones(3))
    with pytest.raises(ShapeError, match="q is 4; of matrices"):
        fw.pca_lowrank(fw.ones(5, 3), q=4)
    with pytest.raises(ShapeError, match="niter -1"):
        fw.svd_lowrank(fw.ones(5, 3), niter=-1)
