"""Norms of matrices are PyTorch's."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw


@pytest.mark.parametrize("name", ["frobenius_norm", "nuclear_norm"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norm(name: str, keepdim: bool) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    found = getattr(fw, name)(fw.tensor(x), (1, 2), keepdim)
    kind = "nuc" if name == "nuclear_norm" else "fro"
    expected = torch.linalg.matrix_norm(torch.tensor(x), kind, (1, 2), keepdim)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
