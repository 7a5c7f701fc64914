"""The attention kernels in the shape that GPUs run them in, on any device."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework import ops
from vkbackend.framework.autograd.engine import backward
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.attention import simt
from vkbackend.framework.kernels.attention.flash import AttentionCall
from vkbackend.framework.ops.attention import flash, sdpa

SHAPES = {
    # Queries, keys, size of a key and of a value; more than one tile and block each.
    "odd": ((2, 3, 70, 20), (2, 3, 131, 20), (2, 3, 131, 18)),
    "quads": ((2, 3, 70, 24), (2, 3, 131, 24), (2, 3, 131, 20)),
    "shared": ((1, 4, 37, 8), (1, 2, 65, 8), (1, 2, 65, 8)),
    "long vectors": ((1, 1, 5, 132), (1, 1, 67, 132), (1, 1, 67, 132)),
}
OPTIONS: dict[str, dict[str, Any]] = {"plain": {}, "causal": {"is_causal": True}}


@pytest.fixture
def as_on_gpu(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuDevice]:
    """Return the device, which attention takes for a discrete one, with small tiles.

    Its parameter is the least size of a subgroup there.
    """
    chosen = flash.flash_dispatch
    least = getattr(request, "param", gpu.gpu.info.min_subgroup_size)

    def dispatch(kernel: str, own: Any, call: AttentionCall) -> Dispatch:
        info = dataclasses.replace(call.gpu, kind="discrete", min_subgroup_size=least)
        return chosen(kernel, own, call._replace(gpu=info))

    monkeypatch.setattr(flash, "flash_dispatch", dispatch)
    monkeypatch.setattr(sdpa, "_wants_matrix", never)
    monkeypatch.setattr(simt, "USED", dict.fromkeys(simt.USED, False))
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


def test_the_order_of_sums_is_the_same_wherever_they_begin(quads: GpuDevice) -> None:
    """Of float32, whose kernels read vectors in quads."""
    parts = np.random.default_rng(4).normal(size=(3, 2, 2, 19, 8)).astype("f4")

    def found(start: int) -> list[bytes]:
        leaves = [
            fw.tensor(
                np.concatenate([np.zeros(start, "f4"), part.ravel()]), None, quads
            )
            for part in parts
        ]
        for each in leaves:
            each.requires_grad = True
        q, k, v = (each[start:].reshape(parts.shape[1:]) for each in leaves)
        out = ops.scaled_dot_product_attention(q, k, v)
        out.sum().backward()
        answers = out, *(each.grad[start:] for each in leaves)
        return [each.detach().numpy().tobytes() for each in answers]

    expected = found(0)
    assert found(1) == found(2) == expected


# The others are combinations, whose kernels software compiles for seconds.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("odd", "plain"),
        pytest.param("odd", "causal", marks=pytest.mark.wide),
        ("quads", "plain"),
        ("shared", "causal"),
        ("long vectors", "plain"),
        pytest.param("quads", "causal", marks=pytest.mark.gpu),
        pytest.param("shared", "plain", marks=pytest.mark.gpu),
        pytest.param("long vectors", "causal", marks=pytest.mark.gpu),
    ],
)
def test_is_as_in_torch(shape: str, options: str, as_on_gpu: GpuDevice) -> None:
    arrays = [draw(*each, seed=k) for k, each in enumerate(SHAPES[shape])]
    inputs = [fw.tensor(each, device=as_on_gpu, requires_grad=True) for each in arrays]
    twins = [torch.from_numpy(each).double().requires_grad_() for each in arrays]
    given = {"enable_gqa": shape == "shared", **OPTIONS[options]}
    out = ops.scaled_dot_product_attention(*inputs, **given)
    expected = F.scaled_dot_product_attention(*twins, **given)
    weights = draw(*expected.shape, seed=9)
    assert_close(out, expected.detach().float().numpy(), scale=4)
    out.backward(fw.tensor(weights, device=as_on_gpu))
    expected.backward(torch.from_numpy(weights).double())
    for one, other in zip(inputs, twins):
        assert other.grad is not None
        # Sums of a hundred terms.
        assert_close(one.grad, other.grad.float().numpy(), scale=10)


@pytest.mark.parametrize("as_on_gpu", [64], indirect=True)
def test_tiles_of_wide_subgroups(as_on_gpu: GpuDevice) -> None:
    test_is_as_in_torch("quads", "plain", as_on_gpu)


def test_mask_and_dropout(as_on_gpu: GpuDevice) -> None:
    arrays = [draw(1, 2, n, 8, seed=n) for n in (37, 70, 70)]
    mask = draw(2, 37, 70) > -0.5
    found = []
    for device in ("cpu", as_on_gpu):
        fw.manual_seed(3)
        x = [fw.tensor(each, device=device, requires_grad=True) for each in arrays]
        seen = fw.tensor(mask, device=device)
        out = ops.scaled_dot_product_attention(*x, seen, dropout_p=0.2)
        out.sum().backward()
        found.append([out.detach(), *(each.grad for each in x)])
    for one, other in zip(*found):
        assert_close(one, other.numpy(), scale=10)


def test_weights_are_those_of_the_saved_sums() -> None:
    q, k, v = (
        fw.tensor(draw(1, 1, n, 4, seed=n).astype(np.float64)) for n in (3, 5, 5)
    )
    _, logsumexp = ops.REGISTRY["flash_attention"](q, k, v, None, None, 0.5, False, 0.0)
    scores = q.numpy() @ k.numpy().swapaxes(2, 3) * 0.5
    assert_close(logsumexp, np.log(np.exp(scores).sum(3)))


def test_heads_of_a_row_come_side_by_side(
    place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A projection of all heads then takes them without a copy."""
    monkeypatch.setattr(sdpa, "_wants_matrix", never)
    arrays = [draw(2, 3, 7, 4, seed=n) for n in range(3)]
    q, k, v = (fw.tensor(each, device=place) for each in arrays)
    out = ops.scaled_dot_product_attention(q, k, v)
    assert out.shape == (2, 3, 7, 4)
    assert out.transpose(1, 2).layout.is_contiguous
    scores = q.numpy() @ k.numpy().swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(3, keepdims=True))
    weights /= weights.sum(3, keepdims=True)
    assert_close(out, weights @ v.numpy(), scale=4)


def never(*_: Any) -> bool:
    return False


def test_second_gradient_with_dropout_is_refused(
    make: Callable[..., fw.Tensor],
) -> None:
    x = make(draw(2, 5, 4), grad=True)
    out = ops.scaled_dot_product_attention(x, x, x, dropout_p=0.5).sum()
    seed = make(np.float32(1))
    with pytest.raises(GradError, match="with dropout the gradient has no gradient"):
        backward([out], [seed], create_graph=True, inputs=[x])
