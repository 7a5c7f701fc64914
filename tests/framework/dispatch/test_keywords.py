"""PyTorch's names of parameters, NumPy's, and results written into `out`."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.dispatch.keywords import renamed

CALLS = """\
T.sum(input=m, dim=0)
m.sum(axis=1, keepdims=True)
T.add(input=m, other=m2)
T.pow(input=p, exponent=0.5)
T.mm(m, mat2=m2.T)
T.addmm(input=T.ones(3), mat1=m, mat2=m2.T)
T.where(condition=b, input=m, other=m2)
T.split(tensor=m, split_size_or_sections=2, dim=1)
T.atan2(input=m, other=m2)
!T.sum(m, dim=0, out=T.empty(4))
!T.add(m, m2, out=T.empty(3, 4))
!T.exp(m, out=T.empty(0))
T.abs(m, out=None)
T.add(m, m2, alpha=2)
T.add(m, 2, alpha=3)
T.add(b, b, alpha=2)
T.add(b, True, alpha=0)
T.add(i.int(), b, alpha=2)
T.add(m.half(), i, alpha=0.5)
T.gather(m, 1, idx, sparse_grad=False)
T.bucketize(v3, T.tensor([0, 1, 2, 3]))
T.bucketize(1.5, T.tensor([0, 1, 2, 3]))
T.bucketize(m.half(), T.tensor([0.1, 0.2]))
T.bucketize(i, T.tensor([0.5, 2.5]), right=True)
T.searchsorted(T.tensor([0, 1, 2, 3]), v3)
T.bucketize(v3, T.tensor([False, True]))
T.nn.functional.poisson_nll_loss(m.half(), p, reduction="none")
T.zeros((0, 3)).to_sparse().to_dense()
T.logaddexp2(m.double(), i)
T.logaddexp(m.double(), i)
T.nn.functional.threshold(i, 2, 9)
T.bernoulli(i, 1.0)
m.bernoulli(p=0.0)
T.sub(input=m, other=m2, alpha=0.5)
T.round(m, decimals=1)
m.round(decimals=-1)
T.where(b)
T.std(m, False)
T.std(m, 1, False)
T.std(m, 1, True, True)
m.var(dim=1, unbiased=False)
T.std_mean(m, 1, False, True)
T.norm(m, dim=0, dtype=T.float64)
T.searchsorted(v3.sort().values, v3, side="right", out_int32=True)
T.diff(v3, prepend=T.zeros((1,)), append=T.zeros((2,)))
T.einsum("ij,kj->ik", [m, m2])
T.repeat_interleave(idx[:, 0])
T.repeat_interleave(v3, T.tensor([1, 2, 0]), output_size=3)
T.diag_embed(m, offset=0, dim1=0, dim2=2)
m.scatter(1, idx, value=2.0)
m.scatter(1, idx, T.ones((3, 2)), reduce="add")
m.clone().scatter_(1, idx, 2.0, reduce="multiply")
m.index_fill(1, T.tensor([0]), T.tensor(2.0))
T.index_reduce(m, 0, T.tensor([0, 0]), T.ones((2, 4)), "prod")
m.index_reduce(0, T.tensor([0, 2]), T.ones((2, 4)), "mean")
m.permute(dims=(1, 0))
m.reshape(shape=(2, 6))
m.view(size=(4, 3))
!m.view(T.int32)
T.tile(m, dims=(2,))
m.split_with_sizes([1, 2])
m.narrow_copy(0, 1, 1)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_names(call: str) -> None:
    check(call)


def test_on_a_device(device: vkbackend.Device) -> None:
    check("T.add(input=m, other=m2)", fw.device(device.name))


def test_an_argument_under_two_names() -> None:
    with pytest.raises(TypeError, match="given under two names"):
        fw.sum(fw.ones(3), dim=0, axis=0)


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="sum: x is '3'; it must be a tensor"):
        fw.sum("3")  # type: ignore[arg-type]


def test_draws_in_place() -> None:
    fw.manual_seed(0)
    x = fw.empty(4000)
    assert abs(float(x.cauchy_(3.0, 0.5).median()) - 3) < 0.1
    assert abs(float(x.log_normal_(0.5, 0.5).log().mean()) - 0.5) < 0.05
    assert abs(float(x.geometric_(0.25).mean()) - 4) < 0.3
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        x.geometric_(1.0)


def test_our_names_stay() -> None:
    assert renamed("sum", ["x", "dim"]) == {"axis": "dim", "input": "x"}
