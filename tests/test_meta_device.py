"""The meta device beside PyTorch's: the same programs, run under both libraries."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.errors import NoDataError

META = {"device": "meta"}

EXPRESSIONS = """
x
m.zeros(2, 3, device="meta")
m.full((2,), 3, device="meta")
m.arange(5, device="meta")
m.eye(3, dtype=m.float16, device="meta")
m.randint(0, 5, (3,), device="meta")
m.randperm(5, device="meta")
m.tensor([1, 2], device="meta")
m.empty_strided((2, 3), (1, 2), device="meta")
m.rand_like(x)
m.zeros(1 << 20, 1 << 20, device="meta").sum(0) + 1
m.ones(2, 3).to("meta")
x.new_zeros(2)
x + m.tensor(2.0)
x * m.tensor(2, dtype=m.float64)
i + 1.5
x > 0
x @ x.T
x.mean()
x.max(1)
x.softmax(-1)
x.view(2, 6)
x.T.reshape(12)
x[1:, ::2]
x[i]
x[m.tensor([True, False, True])]
x[m.ones(3, 4, dtype=m.bool)]
x[None].expand(2, -1, -1)
x.gather(1, i[:, None])
x.scatter(1, i[:, None], 1.0)
x.index_add(0, i, x)
m.where(x > 0, x, 0.0)
m.cat([x, x])
x.topk(2)
x.cumsum(0)
m.einsum("ij,kj->ik", x, x)
m.fft.fft(x)
m.std_mean(x)
m.linalg.inv(x[:, :3])[0]
m.linalg.svd(x)[1]
m.linalg.slogdet(x[:, :3])
m.linalg.lu_factor(x[:, :3])[1]
m.linalg.matrix_exp(x[:, :3])
x.view(m.int32)
x.half()
x.clone().add_(1)
x.clone().copy_(m.ones(3, 4))
x.clone().normal_()
x.bernoulli()
m.multinomial(x, 2)
m.nn.functional.conv2d(m.ones(1, 3, 8, 8, device="meta"), m.ones(4, 3, 3, 3, **k))
m.nn.functional.max_pool2d(m.ones(1, 3, 8, 8, device="meta"), 2)
m.nn.functional.interpolate(m.ones(1, 3, 8, 8, device="meta"), scale_factor=2)
m.nn.functional.cross_entropy(x, i)
m.nn.functional.layer_norm(x, (4,))
m.nn.functional.dropout(x)
x.cpu()
x.to("cpu")
x + m.ones(4)
x @ x
x[x > 0]
x.nonzero()
x.unique()
x.sum().item()
bool(x.sum())
x.numpy()
x.tolist()
m.equal(x, x)
m.ones(3, 4).copy_(x)
repr(x), repr(i), x.is_meta, x.is_cpu, x.type(), x.data_ptr(), x.nbytes
m.device("meta") == x.device, repr(x.device), str(x.device)
""".strip().split("\n")
"""Of a module `m`, a tensor `x` of (3, 4) and an `i` of three int64."""

ERRORS = RuntimeError, NotImplementedError, TypeError, ValueError, IndexError


def told(value: Any) -> Any:
    """Return what both libraries are to agree on."""
    if isinstance(value, torch.Tensor | fw.Tensor):
        kind = str(value.dtype).rsplit(".", 1)[-1]
        return tuple(value.shape), kind, value.device.type, value.requires_grad
    return [told(each) for each in value] if isinstance(value, tuple) else value


def outcome(module: Any, expression: str) -> Any:
    """Return what an expression gives, or the error that it raises."""
    names = {
        "m": module,
        "k": META,
        "x": module.empty(3, 4, **META),
        "i": module.zeros(3, dtype=module.int64, **META),
    }
    try:
        return told(eval(expression, names))
    except ERRORS as error:
        return error


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str) -> None:
    wanted, found = outcome(torch, expression), outcome(fw, expression)
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), found
    else:
        assert found == wanted


MODULES: list[Callable[[Any, Any], Any]] = [
    lambda m, nn: nn.Linear(3, 4)(m.ones(2, 3)),
    lambda m, nn: nn.Conv2d(3, 4, 3)(m.ones(1, 3, 8, 8)),
    lambda m, nn: nn.BatchNorm2d(3)(m.ones(2, 3, 4, 4)),
    lambda m, nn: nn.LSTM(3, 4)(m.ones(5, 2, 3))[1],
    lambda m, nn: nn.GRU(3, 4, bidirectional=True)(m.ones(5, 2, 3)),
    lambda m, nn: nn.TransformerEncoderLayer(8, 2)(m.ones(2, 5, 8)),
    lambda m, nn: nn.Embedding(9, 4)(m.zeros(2, dtype=m.int64)),
    lambda m, nn: nn.init.orthogonal_(m.empty(3, 4)),
    lambda m, nn: nn.init.trunc_normal_(m.empty(3, 4)),
    lambda m, nn: nn.init.sparse_(m.empty(3, 4), 0.2),
    lambda m, nn: nn.init.dirac_(m.empty(3, 4, 3)),
]


@pytest.mark.parametrize("build", MODULES)
def test_modules_within_the_device(build: Callable[[Any, Any], Any]) -> None:
    with torch.device("meta"):
        wanted = told(build(torch, torch.nn))
    with fw.device("meta"):
        assert told(build(fw, nn)) == wanted


def test_gradients_and_steps() -> None:
    """They have shapes, too; nothing is computed."""
    model = nn.Linear(1 << 20, 1 << 20, **META)
    for kind in (fw.optim.Adam, fw.optim.AdamW):
        optimizer = kind(model.parameters())
        model(fw.ones(2, 1 << 20, **META)).relu().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    grad = model.weight.grad
    assert grad is not None
    assert (grad.is_meta, grad.shape) == (True, model.weight.shape)


def test_elements_are_given_later() -> None:
    given = nn.Linear(3, 4)
    model = copy.deepcopy(nn.Linear(3, 4, **META))
    model.load_state_dict(given.state_dict(), assign=True)
    assert fw.equal(model.weight, given.weight)
    assert model.weight.requires_grad
    empty = nn.Linear(3, 4, **META).to_empty(device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty.load_state_dict(given.state_dict())
    assert fw.equal(empty(fw.ones(2, 3)), given(fw.ones(2, 3)))
    with pytest.raises(NoDataError, match=r"shape \(4, 3\) on the meta device are"):
        nn.Linear(3, 4, **META).to("cpu")
    before = given.weight.detach().clone()
    with pytest.raises(NoDataError):
        given.load_state_dict(nn.Linear(3, 4, **META).state_dict())
    assert fw.equal(given.weight, before)


def test_nothing_is_drawn() -> None:
    """As PyTorch's, random tensors without elements advance no generator."""
    wanted = fw.rand(2, generator=fw.Generator().manual_seed(0))
    fw.manual_seed(0)
    x = fw.rand(3, 4, **META)
    for draw in (x.bernoulli, x.clone().normal_, x.exponential_):
        draw()
    nn.functional.dropout(x)
    fw.randperm(4, **META)
    nn.init.xavier_normal_(nn.Linear(3, 4, **META).weight)
    assert fw.equal(fw.rand(2), wanted)


def test_host_tensors_are_filled_within_the_device() -> None:
    tensor = fw.zeros(3, 4)
    with fw.device("meta"):
        nn.init.uniform_(tensor, 1.0, 2.0)
        assert float(tensor.min()) >= 1.0
        nn.init.orthogonal_(tensor)
    assert tensor.device.type == "cpu"
    assert fw.allclose(tensor @ tensor.T, fw.eye(3), atol=1e-5)
