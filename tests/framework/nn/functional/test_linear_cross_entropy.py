from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import IndexRangeError, ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

X = drawn(4, 5)
LABELS = np.array([1, 0, 2, 2, 6, 4, 3, 3, 1, 2, 5])


@pytest.mark.torch213
def test_as_in_torch(place: Device) -> None:
    labels, shares = np.array([1, 0, 2, 2]), np.abs(drawn(4, 3, 2)) + 0.1
    name = "linear_cross_entropy"
    bias = {"linear_bias": drawn(3)}
    beside(name, place, X, drawn(3, 5), labels, scale=16, ignore_index=2, **bias)
    beside(name, place, X, drawn(3, 2, 5), shares, scale=16)
    x, weight = fw.ones((2, 5)), fw.ones((3, 5))
    with pytest.raises(ShapeError, match="ignore_index is 1 beside probabilities"):
        F.linear_cross_entropy(x, weight, fw.ones((2, 3)), ignore_index=1)
    with pytest.raises(ShapeError, match="linear_cross_entropy: input is"):
        F.linear_cross_entropy(fw.ones(4), fw.ones((3, 5)), fw.tensor(1))
    with pytest.raises(ShapeError, match="chunk is 0; it must be at least 1"):
        F.linear_cross_entropy(x, weight, fw.tensor([1, 2]), chunk=0)


def results(
    place: Device,
    dtype: fw.DType,
    autocast: fw.DType | None = None,
    **options: Any,
) -> list[np.ndarray]:
    """Return the loss and the gradients of input, weight and bias."""
    rng = np.random.default_rng(3)
    x, weight, bias = (
        fw.tensor(rng.standard_normal(shape), dtype=dtype, device=place)
        for shape in ((11, 6), (7, 6), (7,))
    )
    for each in (x, weight, bias):
        each.requires_grad_(True)
    labels = fw.tensor(LABELS, device=place)
    with fw.autocast(place, autocast or fw.bfloat16, enabled=autocast is not None):
        loss = F.linear_cross_entropy(x, weight, labels, linear_bias=bias, **options)
    factors = fw.arange(1, 1 + loss.numel(), device=place).reshape(loss.shape)
    (loss * factors).sum().backward()
    found = [loss.detach(), x.grad, weight.grad, bias.grad]
    assert [each.dtype for each in found[1:] if each is not None] == [dtype] * 3
    return [each.to(fw.float32).cpu().numpy() for each in found if each is not None]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"ignore_index": 2, "label_smoothing": 0.1}])
def test_chunks_give_what_whole_logits_do(
    place: Device, reduction: str, options: dict[str, Any]
) -> None:
    want = results(place, fw.float32, reduction=reduction, **options)
    for chunk in (1, 4, 10):
        got = results(place, fw.float32, reduction=reduction, chunk=chunk, **options)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16, fw.float64])
def test_other_dtypes(place: Device, dtype: fw.DType) -> None:
    want = results(place, dtype)
    got = results(place, dtype, chunk=4)
    atol = {fw.float16: 4e-3, fw.bfloat16: 3e-2, fw.float64: 1e-6}[dtype]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=atol, atol=atol)


def test_autocast(place: Device) -> None:
    want = results(place, fw.float32, fw.bfloat16)
    got = results(place, fw.float32, fw.bfloat16, chunk=4)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=1e-2)


def test_labels_that_all_are_ignored(place: Device) -> None:
    x = fw.ones((5, 4), device=place, requires_grad=True)
    labels = fw.full((5,), -100, device=place)
    weight = fw.ones((3, 4), device=place)
    loss = F.linear_cross_entropy(x, weight, labels, chunk=2)
    assert np.isnan(loss.item())
    F.linear_cross_entropy(x, weight, labels, chunk=2, reduction="sum").backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.zeros((5, 4)))


def test_a_label_that_is_no_class(place: Device) -> None:
    x, weight = fw.ones((5, 4), device=place), fw.ones((3, 4), device=place)
    labels = fw.tensor([0, 1, 2, 3, 0], device=place)
    with pytest.raises(IndexRangeError, match="cross_entropy"):
        F.linear_cross_entropy(x, weight, labels, chunk=2).item()


def test_quantized_weight(place: Device) -> None:
    rng = np.random.default_rng(2)
    table = fw.quantize(rng.standard_normal((9, 32), np.float32), "q8_0").to(place)
    x = fw.tensor(rng.standard_normal((70, 32), np.float32), device=place)
    x.requires_grad_(True)
    labels = fw.tensor(rng.integers(0, 9, 70), device=place)
    found = []
    for weight, chunk in ((table, 16), (table, 70), (table.dequantize(), 70)):
        x.grad = None
        loss = F.linear_cross_entropy(x, weight, labels, chunk=chunk)
        loss.backward()
        assert x.grad is not None
        found.append((loss.item(), x.grad.cpu().numpy()))
    for loss, grad in found[:2]:
        np.testing.assert_allclose(loss, found[2][0], rtol=1e-5)
        np.testing.assert_allclose(grad, found[2][1], rtol=1e-3, atol=1e-6)


def test_gradients_of_gradients(place: Device) -> None:
    rng = np.random.default_rng(2)
    found = []
    for chunk in (2, 5):
        x = fw.tensor(np.linspace(-1, 1, 20).reshape(5, 4), dtype="float32")
        x = x.to(place).requires_grad_(True)
        weight = fw.tensor(rng.standard_normal((3, 4)) * 0 + X[:3, :4]).float()
        weight = weight.to(place).requires_grad_(True)
        labels = fw.tensor([0, 1, 2, 2, 0], device=place)
        loss = F.linear_cross_entropy(x, weight, labels, chunk=chunk)
        (slope,) = fw.autograd.grad(loss, [x], create_graph=True)
        (slope * slope).sum().backward()
        assert weight.grad is not None
        found.append(weight.grad.cpu().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("_no_collector")
def test_memory_and_products(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of one chunk exist at a time, and a frozen weight takes no product."""
    statistics = gpu.gpu.pool.counts
    x = fw.ones((512, 16), device=gpu, requires_grad=True)
    labels = fw.zeros(512, dtype=fw.int64, device=gpu)
    logits = 4 * 512 * 2048

    def peak(frozen: bool, chunk: int) -> tuple[int, int]:
        weight = fw.ones((2048, 16), device=gpu, requires_grad=not frozen)
        fw.eval(weight)
        used, dispatches = statistics.in_use, gpu.gpu.counters.dispatches
        monkeypatch.setattr(statistics, "peak_in_use", used)
        x.grad = None
        loss = F.linear_cross_entropy(x, weight, labels, chunk=chunk)
        loss.backward()
        assert x.grad is not None
        fw.eval(loss, x.grad, *([] if weight.grad is None else [weight.grad]))
        made = gpu.gpu.counters.dispatches - dispatches
        return statistics.peak_in_use - used, made

    whole, _ = peak(True, 512)
    cut, frozen = peak(True, 64)
    _, trained = peak(False, 64)
    assert whole > logits
    assert cut < logits / 2
    assert trained >= frozen + 8


def test_under_jit(gpu: GpuDevice) -> None:
    layer = nn.Linear(6, 7, bias=False).to(gpu)
    optimizer = fw.optim.SGD(layer.parameters(), 0.5)
    x = fw.tensor(np.random.default_rng(0).standard_normal((11, 6)), device=gpu)
    x = x.float()
    labels = fw.tensor(LABELS, device=gpu)

    @fw.jit
    def step(x: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = F.linear_cross_entropy(x, layer.weight, labels, chunk=4)
        loss.backward()
        optimizer.step()
        return loss

    weight = layer.weight.detach().cpu().numpy()
    losses = [step(x, labels).item() for _ in range(5)]
    other = nn.Linear(6, 7, bias=False)
    other.load_state_dict({"weight": fw.tensor(weight)})
    optimizer = fw.optim.SGD(other.parameters(), 0.5)
    for loss in losses:
        optimizer.zero_grad()
        want = F.cross_entropy(other(x.cpu()), labels.cpu())
        want.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, want.item(), rtol=1e-4)
