"""Reductions of what an element-wise op is about to make, in two steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
import vkbackend.framework.nn.functional as functional
from vkbackend.framework.ops.reduce import two_steps

SHAPES = [(96, 520), (3, 40, 17, 25), (3000, 16), (64, 1, 600), (70_000,)]
CALLS: dict[str, Callable[..., Any]] = {
    "sum": lambda lib, x, y: (x * y).sum(),
    "transposed": lambda lib, x, y: (x.movedim(-1, 0) * y.movedim(-1, 0)).sum(),
    "amax, transposed": lambda lib, x, y: (x.movedim(0, -1) * y.movedim(0, -1)).amax(),
    "mean": lambda lib, x, y: (x - y).mean(),
    "integers": lambda lib, x, y: ((x * 100).to(lib.int32) * 70001).sum(),
    "amax": lambda lib, x, y: (x * y).amax(),
    "amin, dims": lambda lib, x, y: (x * y).amin(tuple(range(x.dim())), keepdim=True),
    "all": lambda lib, x, y: lib.all(x < 9),
    "any": lambda lib, x, y: lib.any((x * y) > 1e9),
    "norm": lambda lib, x, y: lib.linalg.vector_norm(x + y, 3),
    "absolute": lambda lib, x, y: lib.linalg.vector_norm(x - y, 1),
    "counted": lambda lib, x, y: lib.count_nonzero(x > y),
}


@pytest.fixture(autouse=True)
def _shares_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let software devices reduce as GPUs do."""
    monkeypatch.setattr(two_steps, "_shares_rows", lambda _: True)


def _names(gpu: Any, call: Callable[[], Any]) -> list[str]:
    with gpu.gpu.profile() as profile:
        fw.eval(call())
    return [span.name.split(" ")[0] for span in profile.spans]


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CALLS)
def test_as_in_torch(gpu: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    kind = getattr(torch, dtype)
    ours = [fw.tensor(each, device=gpu).to(dtype) for each in (x, y)]
    fw.eval(*ours)
    theirs = [torch.tensor(each).to(kind) for each in (x, y)]
    if dtype == "bfloat16":  # PyTorch's sums of it on the CPU are rounded in between.
        theirs = [each.float() for each in theirs]
        ours = [each.to(fw.float32) for each in ours]
    found = CALLS[name](fw, *ours)
    wanted = CALLS[name](torch, *theirs)
    assert found.shape == wanted.shape
    assert str(found.dtype).split(".")[-1] == str(wanted.dtype).split(".")[-1]
    bound = {"float16": 2e-3}.get(dtype, 2e-5)
    if name in ("integers", "all", "any", "counted"):
        assert found.item() == wanted.item()
    else:
        # Sums cancel: their error is one of the terms' sizes.
        size = max(1.0, 1e-3 * x.size, abs(wanted.item()))
        np.testing.assert_allclose(found.item(), wanted.item(), atol=bound * size)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(5, 40_000), (2, 3, 64, 128), (63, 999)])
def test_few_long_rows(gpu: Any, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(len(shape))
    host = rng.normal(size=shape).astype(dtype)
    x, y = fw.tensor(host, device=gpu), torch.tensor(host)
    dims = tuple(range(1 if len(shape) == 2 else 2, len(shape)))
    for call in (
        lambda lib, x: lib.linalg.vector_norm(x, float("inf"), dims),
        lambda lib, x: lib.linalg.vector_norm(x + 1, 3, dims, keepdim=True),
        lambda lib, x: (x * x).amin(dims),
        lambda lib, x: (x + 3).mean(dims),
        lambda lib, x: (x > 0).sum(dims, keepdim=True),
        lambda lib, x: lib.any(x > 4, -1),
    ):
        found, wanted = call(fw, x), call(torch, y.float())
        assert found.shape == wanted.shape
        rtol = 2e-5 if dtype == "float32" else 2e-3
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol, 1e-6)
    names = _names(gpu, lambda: fw.linalg.vector_norm(x, float("inf"), dims))
    assert len(names) == 2


@pytest.mark.device
def test_what_is_reduced_is_not_stored(gpu: Any) -> None:
    x = fw.ones(96, 520, device=gpu)
    fw.eval(x)
    assert _names(gpu, lambda: (x * 2 + 1).sum()) == ["fused/mul_add_sum", "fused/sum"]
    assert len(_names(gpu, lambda: fw.all(x > 0))) == 2
    turned = _names(gpu, lambda: (x.mT * 2 + 1).sum())
    assert turned == ["fused/mul_add_sum", "fused/sum"]
    # What is in memory is reduced by one kernel or its two passes.
    assert "fused/sum" not in _names(gpu, lambda: x.sum())


@pytest.mark.device
@pytest.mark.parametrize("shape", [(1 << 16,), (2, 1 << 17), (1 << 12, 2, 8)])
def test_rows_are_neither_short_nor_long(gpu: Any, shape: tuple[int, ...]) -> None:
    x = fw.ones(shape, device=gpu)
    fw.eval(x)
    for each in (x, x.permute(*reversed(range(x.dim())))):
        names = _names(gpu, lambda each=each: (each * 2 + 1).sum())
        assert names == ["fused/mul_add_sum", "fused/sum"]


@pytest.mark.parametrize(
    ("numel", "columns"),
    [(1 << 24, 8192), (1 << 20, 1024), (70_000, 200), (40_009, 0), (33_333, 123)],
)
def test_columns_of_all_elements(numel: int, columns: int) -> None:
    assert two_steps.even_columns(numel) == columns


@pytest.mark.device
def test_gradients(gpu: Any) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 3, (96, 520)).astype(np.float32)
    for call in (
        lambda lib, x: (x * x).sum(),
        lambda lib, x: (x * 2).amax(),
        lambda lib, x: (x - 1).mean(),
        lambda lib, x: (x.mT * x.mT).sum(),
    ):
        ours = fw.tensor(data, device=gpu, requires_grad=True)
        theirs = torch.tensor(data, requires_grad=True)
        out = call(fw, ours)
        out.backward()
        call(torch, theirs).backward()
        assert ours.grad is not None
        assert theirs.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)


@pytest.mark.device
def test_losses(gpu: Any) -> None:
    rng = np.random.default_rng(1)
    p, t = (rng.uniform(0.01, 0.99, (128, 300)).astype(np.float32) for _ in range(2))
    for name in ("mse_loss", "l1_loss", "binary_cross_entropy", "smooth_l1_loss"):
        ours = fw.tensor(p, device=gpu, requires_grad=True)
        theirs = torch.tensor(p, requires_grad=True)
        found = getattr(functional, name)(ours, fw.tensor(t, device=gpu))
        wanted = getattr(torch.nn.functional, name)(theirs, torch.tensor(t))
        np.testing.assert_allclose(found.item(), wanted.item(), rtol=2e-6)
        found.backward()
        wanted.backward()
        assert ours.grad is not None
        assert theirs.grad is not None
        np.testing.assert_allclose(
            ours.grad.numpy(), theirs.grad.numpy(), rtol=2e-5, atol=1e-9
        )
