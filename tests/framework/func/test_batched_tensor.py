import vkbackend.framework as fw
from vkbackend.framework.dispatch import batching
from vkbackend.framework.func.batched_tensor import (
    BatchedTensor,
    BatchLevel,
    active_levels,
    aligned,
    batching_level,
    flat,
    wrapped,
)


def test_a_batched_tensor_has_the_shape_of_one_element() -> None:
    outer, inner = BatchLevel(2, "error"), BatchLevel(3, "error")
    real = fw.rand(2, 3, 5, requires_grad=True)
    x = wrapped(real, (outer, inner))
    assert isinstance(x, BatchedTensor)
    assert (x.shape, x.ndim, x.dtype, len(x)) == ((5,), 1, fw.float32, 5)
    assert x.requires_grad
    assert not x.detach().requires_grad
    assert aligned(wrapped(real[0], (inner,)), (outer, inner)).shape == (1, 3, 5)
    assert flat(wrapped(real[0], (inner,)), (outer, inner)).shape == (6, 5)
    assert wrapped(real, ()) is real


def test_levels_are_those_of_the_blocks_around() -> None:
    level, before = BatchLevel(2, "error"), batching.depth
    with batching_level(level):
        assert active_levels() == (level,)
        assert batching.depth == before + 1
    assert active_levels() == ()
    assert batching.depth == before
