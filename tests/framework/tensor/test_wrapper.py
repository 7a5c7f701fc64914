"""Tensors that are made of others, by sparse ones."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


def sparse(scale: float = 1.0) -> fw.Tensor:
    """Return a sparse matrix."""
    return fw.sparse_coo_tensor([[0, 1], [1, 0]], [2.0 * scale, 3.0], (2, 2))


def test_is_a_buffer_of_modules(place: Device) -> None:
    def module() -> nn.Module:
        made = nn.Linear(2, 2)
        made.register_buffer("adjacency", sparse())
        return made.to(place)

    one, other = module(), module()
    one.adjacency.mul_(2)
    other.load_state_dict(one.state_dict())
    assert other.adjacency.device is place
    assert other.adjacency.to_dense().tolist() == [[0, 4], [6, 0]]
    assert other.double().adjacency.dtype is fw.float64


def test_others_refuse_it_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"exp: the tensor .* sparse"):
        fw.exp(sparse())
    with pytest.raises(TypeError, match="is no array"):
        sparse().numpy()
    with pytest.raises(RuntimeError, match="dense tensor of shape"):
        fw.ones(2, 2).copy_(sparse())
    with pytest.raises(NotImplementedError, match="setitem"):
        sparse()[0] = 1.0


@pytest.mark.device
def test_changes_in_place_are_not_replayed_wrongly(gpu: Device) -> None:
    held = sparse().to(gpu)
    called = fw.jit(lambda x: held @ x)
    x = fw.eye(2, device=gpu)
    for _ in range(3):
        assert called(x).tolist() == held.to_dense().tolist()
    held.mul_(2)
    assert called(x).tolist() == [[0, 4], [6, 0]]
