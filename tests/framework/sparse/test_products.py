"""Products of sparse matrices, and their gradients, beside PyTorch."""

import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.sparse_calls import check, scope
from vkbackend.framework.base.device import Device

CALLS = """
    (A @ X, A.mm(X), m.mm(A, X), m.matmul(A, X), m.sparse.mm(A, X), S @ X)
    (A @ V, m.mv(A, V), S @ V, m.nn.functional.linear(A, D))
    (D.t() @ A, m.mm(D.t(), A), m.sparse.mm(D.t(), A), m.sparse.mm(D.t(), D))
    (A @ A.t(), m.sparse.mm(A, A.t()), S @ S.t().to_sparse_csr())
    (m.sparse.addmm(E, A, X, beta=2, alpha=3), m.addmm(E, A, X))
    m.bmm(m.stack([A, A]), m.stack([X, X]))
    m.sparse.sampled_addmm(S, D, m.eye(4, device=place), beta=0.5)
    (m.sparse.mm(S, X, "mean"), m.sparse.mm(S, X, "amax"))
    A @ D
    A @ X.double()
"""


def test_calls_are_as_in_torch(place: Device) -> None:
    check(CALLS, place)


GRADIENTS = """
    (m.sparse.mm(m.sparse_coo_tensor(i, v, (3, 4)), X) * E).sum()
    ((m.sparse_coo_tensor(i, v, (3, 4)) @ X) ** 2).sum()
    ((m.sparse_coo_tensor(i, v, (3, 4)).coalesce() * D).to_dense() ** 2).sum()
    (m.sparse.softmax(m.sparse_coo_tensor(i, v, (3, 4)).coalesce(), 1).values() * 2)[0]
    (m.sparse.sum(m.sparse_coo_tensor(i, v, (3, 4)), 0).to_dense() ** 2).sum()
    (D.to_sparse() @ X).sum()
    (D.sparse_mask(Ac).values() ** 2).sum()
    ((S @ X) * E).sum()
"""


def test_gradients_are_as_in_torch(place: Device) -> None:
    found: list[list[object]] = []
    for m, where in ((fw, place), (torch, "cpu")):
        grads: list[object] = []
        for line in GRADIENTS.strip().split("\n"):
            names = scope(m, where)
            leaves = [names[name].requires_grad_() for name in ("v", "X", "D")]
            eval(line.strip(), names).backward()  # the test's own
            grads += [each.grad for each in leaves]
        found.append(grads)
    for ours, theirs in zip(*found):
        assert (ours is None) == (theirs is None)
        if isinstance(theirs, torch.Tensor):
            assert_close(ours, theirs.to_dense().numpy())  # type: ignore[arg-type]


def test_a_sparse_leaf_has_a_sparse_gradient(place: Device) -> None:
    grads = []
    for m, where in ((fw, place), (torch, "cpu")):
        names = scope(m, where)
        a = m.sparse_coo_tensor(names["i"], names["v"], (3, 4), requires_grad=True)
        (m.sparse.mm(a, names["X"]) * names["E"]).sum().backward()
        assert a.grad.layout == m.sparse_coo
        (again,) = m.autograd.grad((m.sparse.mm(a, names["X"]) ** 2).sum(), a)
        grads.append([a.grad.to_dense(), again.to_dense()])
    for ours, theirs in zip(*grads):
        assert_close(ours, theirs.numpy())


@pytest.mark.device
def test_a_replay_takes_sparse_arguments_and_results(gpu: Device) -> None:
    weights = fw.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)).to(gpu)
    called = fw.jit(lambda a, x: (a * 2, a @ (weights @ x)))
    for scale in (1.0, 2.0, 3.0):
        a = fw.sparse_coo_tensor([[0, 1], [0, 1]], [scale, 1.0], (2, 2)).to(gpu)
        doubled, product = called(a, fw.eye(2, device=gpu))
        assert doubled.to_dense().tolist() == [[2 * scale, 0], [0, 2]]
        assert product.tolist() == [[0, 2 * scale], [3, 0]]
    assert called.traces == 1
