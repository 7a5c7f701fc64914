"""Ops on batches beside PyTorch's `vmap`, and beside a loop where it has none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.func.batching_rules import RULES

INDEX = np.array([[0, 2], [1, 0], [2, 2]])

# PyTorch's own.
pytestmark = pytest.mark.filterwarnings(
    "ignore:There is a performance drop:UserWarning"
)


def functional(library: Any) -> Any:
    return library.nn.functional


def changed_in_place(lib: Any, x: Any) -> Any:
    y = x.clone()
    y.add_(x)
    y[0] = x[1]
    y[[1, 2]] = x[0]
    return y.mul_(2.0)


Row = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]

# Functions of one element of the batch, and the shapes of batches of three.
ROWS: dict[str, Row] = {
    "element-wise": (lambda lib, x, y: (x * y + x.sin()).exp(), ((3, 4), (3, 1))),
    "fewer dimensions": (lambda lib, x, y: x + y, ((3, 4, 5), (3, 5))),
    "where": (lambda lib, x: lib.where(x > 0, x, 0.0), ((3, 4),)),
    "promotion": (lambda lib, x: x.to(lib.float16) * lib.ones(3), ((3,),)),
    "reductions": (
        lambda lib, x: x.sum(0) + x.mean() + x.amax(-1).sum() + x.prod(0).max(),
        ((3, 4, 5),),
    ),
    "statistics": (
        lambda lib, x: x.var(0) + x.std(0) + x.norm(dim=0) + lib.logsumexp(x, 0),
        ((3, 4, 5),),
    ),
    "movements": (
        lambda lib, x: x.reshape(-1)[2:7].reshape(5, 1).expand(5, 2).mT.flip(0),
        ((3, 4, 5),),
    ),
    "parts": (
        lambda lib, x: x.unbind(0)[1] + x.split(2)[0].sum(0) + x.unfold(0, 2, 1).sum(),
        ((3, 4, 4),),
    ),
    "matrices": (
        lambda lib, x: lib.diagonal(x) + lib.tril(x).sum(0) + lib.diag(x).sum(),
        ((3, 4, 4),),
    ),
    "joined": (
        lambda lib, x, y: lib.cat([x, y, x], 1) + lib.stack([x, x], 1).sum(),
        ((3, 4, 5), (3, 4, 2)),
    ),
    "padded": (
        lambda lib, x: functional(lib).pad(x, (1, 2)).sum(0) + x.roll(1, 0).sum(),
        ((3, 4, 2),),
    ),
    "products": (
        lambda lib, x, y: x @ y + lib.einsum("ij,kj->ik", x, x)[:, :2],
        ((3, 4, 5), (3, 5, 2)),
    ),
    "linear": (
        lambda lib, x, w, b: functional(lib).linear(x, w, b),
        ((3, 4, 5), (3, 2, 5), (3, 2)),
    ),
    "convolution": (
        lambda lib, x, w, b: functional(lib).conv2d(x, w, b, padding=1),
        ((3, 2, 2, 5, 5), (3, 4, 2, 3, 3), (3, 4)),
    ),
    "transposed convolution": (
        lambda lib, x, w, b: functional(lib).conv_transpose2d(x, w, b),
        ((3, 2, 2, 5, 5), (3, 2, 4, 3, 3), (3, 4)),
    ),
    "one transposed convolution": (
        lambda lib, x, b: functional(lib).conv_transpose2d(
            x, lib.ones(2, 4, 3, 3), b, 2
        ),
        ((3, 2, 2, 5, 5), (3, 4)),
    ),
    "transposed volumes": (
        lambda lib, x, w: (
            functional(lib).conv_transpose3d(x, lib.ones(2, 4, 3, 3, 3), None, 2)
            + functional(lib).conv_transpose3d(x, w, None, 2)
        ),
        ((3, 1, 2, 2, 3, 3), (3, 2, 4, 3, 3, 3)),
    ),
    "pools": (
        lambda lib, x: (
            functional(lib).max_pool2d(x, 2) + functional(lib).avg_pool2d(x, 2)
        ),
        ((3, 2, 2, 6, 6),),
    ),
    "softmax": (
        lambda lib, x: (
            functional(lib).softmax(x, 0) + functional(lib).log_softmax(x, 1)
        ),
        ((3, 4, 5),),
    ),
    "norms": (
        lambda lib, x, w: (
            functional(lib).layer_norm(x, (6,), w)
            + functional(lib).group_norm(x.reshape(2, 4, 3), 2).reshape(4, 6)
        ),
        ((3, 4, 6), (3, 6)),
    ),
    "sorted": (
        lambda lib, x: x.sort(0)[0] + x.cumsum(1) + x.topk(2)[0].sum() + x.cumprod(0),
        ((3, 4, 5),),
    ),
    "median": (lambda lib, x: x.median(0)[0] + x.median(), ((3, 5, 4),)),
    "attention": (
        lambda lib, q, k: functional(lib).scaled_dot_product_attention(
            q, k, k, is_causal=True
        ),
        ((3, 2, 2, 4, 8), (3, 2, 2, 4, 8)),
    ),
    "in place": (lambda lib, x: changed_in_place(lib, x), ((3, 4),)),
    "nested": (
        lambda lib, x: lib.func.vmap(
            lambda row: lib.func.vmap(lambda y: x @ y, in_dims=1)(x).sum() * row
        )(x),
        ((3, 4, 4),),
    ),
}

# The same with an index of each element as a further argument.
INDEXED: dict[str, Row] = {
    "index": (lambda lib, x, i: x[i] + x[[0, 2]] + x[1], ((3, 4, 5),)),
    "gather": (lambda lib, x, i: x.gather(0, i), ((3, 4),)),
    "embedding": (
        lambda lib, w, i: functional(lib).embedding(i, w),
        ((3, 4, 5),),
    ),
    "index_add": (
        lambda lib, x, y, i: x.index_add(0, i, y).scatter_add(
            0, i.reshape(2, 1).expand(2, 2), y
        ),
        ((3, 4, 2), (3, 2, 2)),
    ),
    "cross-entropy": (
        lambda lib, x, i: functional(lib).cross_entropy(x, i),
        ((3, 2, 4),),
    ),
}


def arrays(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", [*ROWS, *INDEXED])
def test_batches_are_those_of_torch(name: str, place: Device) -> None:
    function, shapes = (ROWS | INDEXED)[name]
    given = arrays(shapes)
    if name in INDEXED:
        given.append(INDEX)
    wanted = torch.func.vmap(lambda *args: function(torch, *args))(
        *[torch.tensor(each) for each in given]
    )
    found = fw.func.vmap(lambda *args: function(_Placed(place), *args))(
        *[fw.tensor(each, device=place) for each in given]
    )
    assert found.dtype.name == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-5, atol=2e-5)


class _Placed:
    """The framework, whose `ones` are on the device under test."""

    def __init__(self, place: Device) -> None:
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(fw, name)

    def ones(self, *shape: int) -> fw.Tensor:
        return fw.ones(*shape, device=self._place)


def test_rules_are_of_ops() -> None:
    assert RULES.keys() <= REGISTRY.keys()


def test_softmax_that_is_composed(place: Device) -> None:
    x = fw.arange(3 << 14, device=place).reshape(3, -1).float().sin()
    batched = fw.func.vmap(functional(fw).softmax, in_dims=(0, None))(x, 0)
    assert fw.equal(batched, x.softmax(1))


def test_ops_without_a_rule_run_for_each_element(place: Device) -> None:
    x = fw.tensor([[3.0, 1.0], [2.0, 5.0]], device=place, requires_grad=True)
    bounds = fw.tensor([[0.0, 2.0, 4.0], [0.0, 1.0, 9.0]], device=place)
    assert "searchsorted" not in RULES
    found = fw.func.vmap(fw.searchsorted)(bounds, x.detach())
    assert found.tolist() == [[2, 1], [2, 2]]


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_draws_are_as_asked_for(randomness: str, place: Device) -> None:
    x = fw.ones((3, 64), device=place)

    def function(x: fw.Tensor) -> fw.Tensor:
        return functional(fw).dropout(x, 0.5) + fw.rand_like(x)

    found = fw.func.vmap(function, randomness=randomness)(x).numpy()
    assert found.shape == (3, 64)
    assert (found[0] == found[1]).all() == (randomness == "same")


def test_what_has_no_batch_is_refused() -> None:
    x, y = fw.ones((3, 2)), fw.zeros(2)
    with pytest.raises(GradError, match="draws random numbers"):
        fw.func.vmap(fw.rand_like)(x)
    with pytest.raises(GradError, match="read on the host"):
        fw.func.vmap(lambda x: x if x.sum() > 0 else -x)(x)
    with pytest.raises(GradError, match="without a batch is changed"):
        fw.func.vmap(lambda x: y.add_(x))(x)
    with pytest.raises(GradError, match="have no shape"):
        fw.func.vmap(lambda x: x[x > 0])(x)
