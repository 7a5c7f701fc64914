"""Tolerances and dtypes of pseudo-inverses and least squares."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw


def test_pseudo_inverses_under_autocast_for_the_host_have_pytorchs_dtypes() -> None:
    for module in (torch, fw):
        x = module.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
        with module.autocast("cpu", dtype=module.bfloat16):
            found = module.linalg.pinv(x)
            assert found.dtype is module.bfloat16
            assert module.linalg.pinv(x.double()).dtype is module.float64
            assert module.pinverse(x).dtype is module.float32
            solved = module.linalg.lstsq(x, module.ones(2, 1))
            assert solved[0].dtype is module.float32
        assert module.linalg.pinv(x).dtype is module.float32
    # The gradient, which PyTorch has none of there, is that of the float32 result.
    found.float().sum().backward()
    narrow, x.grad = x.grad, None
    fw.linalg.pinv(x).sum().backward()
    np.testing.assert_allclose(narrow.numpy(), x.grad.numpy(), rtol=1e-5)


def test_pinv_takes_its_old_tolerance() -> None:
    values = [[1.0, 0.0], [0.0, 0.01]]
    for library in (torch, fw):
        x: Any = library.tensor(values)
        wanted = [[1.0, 0.0], [0.0, 0.0]]
        pinv = library.linalg.pinv
        for found in (
            pinv(x, 0.5), pinv(x, 0.5, True), pinv(x, library.tensor(0.5)),
            pinv(x, rcond=0.5, hermitian=True),
        ):  # fmt: skip
            assert found.tolist() == wanted
        with pytest.raises(TypeError):
            pinv(x, 0.5, atol=1.0)
