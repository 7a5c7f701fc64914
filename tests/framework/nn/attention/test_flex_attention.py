"""`flex_attention` beside PyTorch's."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import flex_attention as theirs

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn.attention import flex_attention as ours

BIAS = np.linspace(-1, 1, 4 * 79).reshape(4, 79).astype(np.float32)
DOCUMENT = np.repeat(np.arange(4), 10)


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() <= 3


def programs(library: Any, flex: Any, tensor: Any) -> list[dict[str, Any]]:
    """Return the options of calls, made of a library's tensors."""
    bias, document = tensor(BIAS), tensor(DOCUMENT)

    def same(b: Any, h: Any, q: Any, k: Any) -> Any:
        return document[q] == document[k]

    def never(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q > 5) & (k < 8)

    def mask(mod: Any, *sizes: Any, **options: Any) -> Any:
        return flex.create_block_mask(mod, *sizes, device=bias.device, **options)

    small = {"BLOCK_SIZE": (16, 8)}
    return [
        {},
        {"score_mod": lambda s, b, h, q, k: s + (q - k) * 0.1, "scale": 0.2},
        {"score_mod": lambda s, b, h, q, k: s + bias[h, q - k + 39]},
        {"score_mod": lambda s, b, h, q, k: 5 * (s / 5).tanh()},
        {"block_mask": mask(causal, None, None, 40, 40), "return_lse": True},
        {"block_mask": mask(flex.and_masks(causal, same), 2, 4, 40, 40, **small)},
        {"block_mask": mask(flex.or_masks(window, same), None, 4, 40, 40, **small)},
        {"block_mask": mask(never, None, None, 40, 40), "return_lse": True},
    ]


def dense(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return the same with PyTorch's other functions."""
    scores = q @ k.transpose(2, 3) * options.get("scale", q.shape[-1] ** -0.5)
    shapes = torch.eye(4, dtype=torch.int).mul(torch.tensor(scores.shape) - 1) + 1
    where = [torch.arange(max(each)).reshape(each) for each in shapes.tolist()]
    if "score_mod" in options:
        scores = options["score_mod"](scores, *where)
    if "block_mask" in options:
        mask = options["block_mask"].mask_mod(*where)
        scores = scores.masked_fill(~mask, -1e30)
        return scores.softmax(-1).mul(mask.any(-1, keepdim=True)) @ v
    return scores.softmax(-1) @ v


class Uncompiled:
    """PyTorch's functions without those that it traces, which takes a second each."""

    and_masks = staticmethod(theirs.and_masks)
    or_masks = staticmethod(theirs.or_masks)

    @staticmethod
    def create_block_mask(mod: Any, *sizes: Any, **options: Any) -> Any:
        return SimpleNamespace(mask_mod=mod)


@pytest.mark.int64
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.wide)])
def test_is_as_in_torch(share: int, place: Device, rng: np.random.Generator) -> None:
    """The gate compares with PyTorch's other functions alone."""
    arrays = [rng.normal(size=(2, 4, 40, 8)).astype(np.float32) for _ in range(3)]
    seed = rng.normal(size=(2, 4, 40, 8)).astype(np.float32)
    found = programs(fw, ours, lambda x: fw.tensor(x, device=place))
    whole = share == 1
    wanted = programs(torch, theirs if whole else Uncompiled, torch.tensor)
    for one, other in zip(found[::share], wanted[::share]):
        x = [fw.tensor(each, device=place, requires_grad=True) for each in arrays]
        y = [torch.tensor(each, requires_grad=True) for each in arrays]
        result = ours.flex_attention(*x, **one)
        said = expected = dense(*y, **other)
        if whole:
            leaves = [each.detach() for each in y]  # gradients of theirs need a GPU
            said = theirs.flex_attention(*leaves, **other)
        if one.get("return_lse"):
            assert_close(result[1], said[1].numpy(), scale=4)
            result, said = result[0], said[0]
        assert_close(result, said.detach().numpy(), scale=4)
        (result * fw.tensor(seed, device=place)).sum().backward()
        (expected * torch.tensor(seed)).sum().backward()
        for mine, their in zip(x, y):
            assert_close(mine.grad, their.grad.numpy(), scale=20)


@pytest.mark.filterwarnings("ignore")
def test_heads_may_share_keys(rng: np.random.Generator) -> None:
    q, k, v = (
        rng.normal(size=(1, heads, 5, 4)).astype(np.float32) for heads in (6, 2, 2)
    )
    result = ours.flex_attention(*map(fw.tensor, (q, k, v)), enable_gqa=True)
    expected = theirs.flex_attention(*map(torch.tensor, (q, k, v)), enable_gqa=True)
    assert_close(result, expected.numpy(), scale=4)
    with pytest.raises(ShapeError, match="heads must be equal"):
        ours.flex_attention(*map(fw.tensor, (q, k, v)))
    request = ours.AuxRequest(lse=True, max_scores=True)
    aux = ours.flex_attention(*map(fw.tensor, (q, q, q)), return_aux=request)[1]
    whole = torch.tensor(q) @ torch.tensor(q).transpose(2, 3) / 2
    assert_close(aux.max_scores, whole.amax(-1).numpy(), scale=4)
    assert_close(aux.lse, whole.logsumexp(-1).numpy(), scale=4)


@pytest.mark.filterwarnings("ignore")
def test_refusals() -> None:
    x = fw.ones(1, 1, 4, 2)
    short = ours.create_block_mask(causal, None, None, 2, 4)
    with pytest.raises(ShapeError, match="must broadcast"):
        ours.flex_attention(x, x, x, block_mask=short)
    with pytest.raises(ShapeError, match="four dimensions"):
        ours.flex_attention(x[0], x[0], x[0])
