"""Where NumPy computes the steps of a recurrent op, and where ops are recorded."""

import vkbackend.framework as fw
from vkbackend.framework.ops.recurrent.common import on_host


def test_numpy_steps_only_where_nothing_is_recorded() -> None:
    x = fw.zeros(2)
    # Once there is a sparse tensor, calls are looked at by its class too.
    fw.sparse_coo_tensor([[0]], [1.0], (2,))
    assert not on_host(x)
    with fw.no_grad():
        assert on_host(x)
        assert not on_host(x.half())
        assert on_host(x.double())


def test_batched_gradients_are_those_of_recorded_steps() -> None:
    layer = fw.nn.GRU(2, 3)
    x = fw.tensor([[[1.0, -2.0]], [[0.5, 3.0]]])
    out = layer(x)[0]
    seeds = fw.eye(6).reshape(6, 2, 1, 3)
    weight = layer.weight_hh_l0
    (found,) = fw.autograd.grad(
        out, weight, seeds, retain_graph=True, is_grads_batched=True
    )
    for seed, row in zip(seeds, found, strict=True):
        (one,) = fw.autograd.grad(out, weight, seed, retain_graph=True)
        assert fw.allclose(row, one, atol=1e-6)
