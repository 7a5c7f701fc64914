"""Cross entropy against PyTorch: options, extreme logits, bad labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import cross_entropy as kernels

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (3, 4, 2, 3), (2, 1031)])
def test_is_as_in_torch(
    shape: tuple[int, ...], smoothing: float, reduction: str, make: Make
) -> None:
    rng = np.random.default_rng(0)
    data = rng.uniform(-3, 3, shape).astype(np.float32)
    labels = rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(np.int32)
    ignored = int(labels.flat[0]) if labels.size > 2 else -100
    options: dict[str, Any] = {
        "reduction": reduction,
        "label_smoothing": smoothing,
        "ignore_index": ignored,
    }
    x, twin = make(data, grad=True), torch.from_numpy(data).double().requires_grad_()
    found = ops.cross_entropy(x, make(labels), **options)
    wanted = F.cross_entropy(twin, torch.from_numpy(labels).long(), **options)
    assert_close(found, wanted.detach().float().numpy(), scale=4)  # log of a sum
    found.sum().backward()
    wanted.sum().backward()
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.float().numpy(), scale=4)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_label_dtypes(dtype: str, make: Make) -> None:
    x = make(np.eye(3, dtype=np.float32))
    labels = make(np.array([0, 1, 2]).astype(dtype))
    expected = np.float32(np.log(np.e + 2) - 1)
    assert_close(ops.cross_entropy(x, labels), expected)


def test_large_logits_do_not_overflow(make: Make) -> None:
    x = make([[1e4, 0.0], [-1e4, -1e4], [0.0, -1e4]], grad=True)
    labels = make(np.array([0, 1, 1], np.int32))
    losses = ops.cross_entropy(x, labels, reduction="none")
    assert_close(losses, np.array([0, np.log(2), 1e4], np.float32))
    losses.sum().backward()
    wanted = np.array([[0, 0], [0.5, -0.5], [1, -1]], np.float32)
    assert_close(x.grad, wanted)


def test_labels_that_are_no_class_give_nan(
    gpu: GpuDevice, unchecked_indices: None
) -> None:
    x = fw.zeros((4, 3), device=gpu, requires_grad=True)
    labels = fw.tensor(np.array([0, 3, -1, -100], np.int32), device=gpu)
    losses = ops.cross_entropy(x, labels, reduction="none")
    assert_close(losses, np.array([np.log(3), np.nan, np.nan, 0], np.float32))
    losses.sum().backward()
    grad = x.grad.numpy()
    assert np.isnan(grad[1:3]).all()
    assert np.isfinite(grad[0]).all()
    assert (grad[3] == 0).all()
    weighted = ops.cross_entropy(x, labels, fw.ones(3, device=gpu), reduction="none")
    assert_close(weighted, np.array([np.log(3), np.nan, np.nan, 0], np.float32))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(7, 5), (5,), (3, 4, 2, 3)])
@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_weights_and_probabilities(
    kind: str, shape: tuple[int, ...], smoothing: float, reduction: str, make: Make
) -> None:
    rng = np.random.default_rng(1)
    classes = shape[1] if len(shape) > 1 else shape[0]
    weight = rng.uniform(0.5, 2, classes).astype(np.float32)
    if kind == "labels":
        target = rng.integers(0, classes, (*shape[:1], *shape[2:])[: len(shape) - 1])
    else:
        target = rng.uniform(0, 1, shape).astype(np.float32)
    twin = torch.from_numpy(np.asarray(target))
    as_in_torch(
        make,
        lambda x: ops.cross_entropy(
            x, make(np.asarray(target)), make(weight),
            label_smoothing=smoothing, reduction=reduction,
        ),
        lambda x: F.cross_entropy(
            x, twin.double() if twin.is_floating_point() else twin,
            torch.from_numpy(weight).double(),
            label_smoothing=smoothing, reduction=reduction,
        ),
        shape,
        scale=20,  # sums of dozens of losses
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
def test_dtypes_that_labels_are_cast_from(dtype: str, make: Make) -> None:
    x, labels = make(np.eye(3, dtype=np.float32)), np.array([2, 0, 1])
    expected = F.cross_entropy(torch.eye(3), torch.from_numpy(labels))
    assert_close(ops.cross_entropy(x, make(labels.astype(dtype))), expected.numpy())


def test_nothing_counts(make: Make) -> None:
    x = make(np.zeros((2, 3), np.float32), grad=True)
    labels = make(np.array([-100, -100], np.int32))
    assert np.isnan(ops.cross_entropy(x, labels).item())
    total = ops.cross_entropy(x, labels, reduction="sum")
    total.backward()
    assert total.item() == 0
    assert (x.grad.numpy() == 0).all()


def test_second_derivatives_in_double_and_of_nothing() -> None:
    draws = np.random.default_rng(0).standard_normal((3, 4))
    for label in (1, -100):
        found = []
        for library in (fw, torch):
            x = library.tensor(draws, requires_grad=True)
            labels = library.tensor([label] * 3)
            loss = library.nn.functional.cross_entropy(x, labels, label_smoothing=0.15)
            grad = library.autograd.grad(loss, x, create_graph=True)[0]
            square = (grad * grad).sum()
            found.append(library.autograd.grad(square, x)[0].numpy())
        np.testing.assert_allclose(*found, 1e-12, 1e-15)


def test_arguments_that_do_not_go_together() -> None:
    x, half = fw.ones(2, 3), fw.ones(3, dtype="float16")
    with pytest.raises(ValueError, match="ignore_index is 1 beside probabilities"):
        ops.cross_entropy(x, x, ignore_index=1)
    with pytest.raises(TypeError, match="weight is float16, x is float32"):
        ops.cross_entropy(x, fw.tensor([0, 1]), half)


@pytest.mark.parametrize("columns", [2, 37, 1031])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_rows_in_parts(
    columns: int, smoothing: float, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few long rows are summed in parts, some without columns, or of -inf alone."""
    monkeypatch.setattr(kernels, "_parts", lambda *_: 3)
    rng = np.random.default_rng(columns)
    data = (9 * rng.standard_normal((7, columns)) + 500).astype("f4")
    if not smoothing:
        data[1, : columns // 2] = -np.inf
    labels = rng.integers(columns // 2, columns, 7)
    labels[3] = -100
    x = fw.tensor(data, device=gpu).requires_grad_()
    given = torch.tensor(data).requires_grad_()
    at = fw.tensor(labels, device=gpu)
    found = ops.cross_entropy(x, at, label_smoothing=smoothing)
    expected = F.cross_entropy(given, torch.tensor(labels), label_smoothing=smoothing)
    assert_close(found, expected.detach().numpy(), scale=8)  # logits of some 500
    found.backward()
    expected.backward()
    np.testing.assert_allclose(x.grad.numpy(), given.grad.numpy(), atol=1e-5)
    with pytest.raises(IndexError, match=f"label {columns} is out of range"):
        ops.cross_entropy(x, fw.tensor([columns] * 7, device=gpu)).tolist()
