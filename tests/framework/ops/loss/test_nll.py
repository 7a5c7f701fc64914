"""The negative log-likelihood against PyTorch, and labels that are no class."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, 5), (5,), (3, 4, 2, 3)])
def test_is_as_in_torch(
    shape: tuple[int, ...], weighted: bool, reduction: str, make: Make
) -> None:
    rng = np.random.default_rng(1)
    classes = shape[1] if len(shape) > 1 else shape[0]
    labels = np.asarray(
        rng.integers(0, classes, (*shape[:1], *shape[2:])[: len(shape) - 1])
    )
    ignored = int(labels.flat[0]) if labels.size > 2 else -100
    weight = rng.uniform(0.5, 2, classes).astype(np.float32)
    options = {"reduction": reduction, "ignore_index": ignored}
    twin_weight = torch.from_numpy(weight).double() if weighted else None
    as_in_torch(
        make,
        lambda x: ops.nll_loss(
            x, make(labels), make(weight) if weighted else None, **options
        ),
        lambda x: F.nll_loss(x, torch.from_numpy(labels), twin_weight, **options),
        shape,
    )


def test_labels_that_are_no_class_give_nan(
    gpu: GpuDevice, unchecked_indices: None
) -> None:
    x = fw.zeros((4, 3), device=gpu)
    labels = fw.tensor(np.array([0, 3, -1, 1 << 40]), device=gpu)
    losses = ops.nll_loss(x, labels, reduction="none")
    assert_close(losses, np.array([0, np.nan, np.nan, np.nan], np.float32))


def test_infinity_of_another_class_is_not_seen(make: Make) -> None:
    x = make([[-1.0, -np.inf], [-np.inf, -2.0]], grad=True)
    loss = ops.nll_loss(x, make(np.array([0, 1], np.int32)), reduction="sum")
    loss.backward()
    assert loss.item() == 3
    assert_close(x.grad, np.array([[-1, 0], [0, -1]], np.float32))


def test_ignored_labels_give_zero_without_a_sign(make: Make) -> None:
    x = make([[-1.0, -2.0], [-3.0, -4.0]])
    labels = make(np.array([-100, 1]))
    losses = ops.nll_loss(x, labels, reduction="none").numpy()
    assert losses.tolist() == [0, 4]
    assert not np.signbit(losses).any()


def test_elements_are_read_by_label_where_they_are_stored(gpu: GpuDevice) -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((3, 7, 5)).astype(np.float32)
    labels = rng.integers(0, 7, (3, 5))
    labels[1, 2] = -100
    x = fw.tensor(data, device=gpu, requires_grad=True)
    places = fw.tensor(labels, device=gpu)
    fw.eval(x, places)
    with gpu.gpu.profile() as profile:
        stored = ops.nll_loss(x, places)
        fw.eval(stored)
    assert any("label_elements" in span.name for span in profile.spans)
    with gpu.gpu.profile() as profile:
        computed = ops.nll_loss(x * 1.0, places)
        fw.eval(computed)
    assert not any("label_elements" in span.name for span in profile.spans)
    twin = torch.from_numpy(data).requires_grad_()
    wanted = F.nll_loss(twin, torch.from_numpy(labels))
    (stored + computed).backward()
    (2 * wanted).backward()
    np.testing.assert_allclose([stored.item(), computed.item()], wanted.item(), 1e-6)
    assert twin.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), 1e-6)
