"""Hooks of communication get the gradients of several parameters at once."""

from collections.abc import Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.futures import Future
from vkbackend.framework.nn.gradient_bucket import GradBucket, buckets_of


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    fw.distributed.init_process_group("gloo", rank=0, world_size=1)
    yield
    fw.distributed.destroy_process_group()


def doubled(state: list[Any], bucket: GradBucket) -> Future[fw.Tensor]:
    """Return twice the gradients."""
    shapes = [tuple(each.shape) for each in bucket.gradients()]
    parameters = [tuple(each.shape) for each in bucket.parameters()]
    state.append((bucket.index(), bucket.is_last(), shapes, parameters))
    future: Future[fw.Tensor] = Future()
    future.set_result(bucket.buffer() * 2)
    return future


def test_the_hook_makes_the_gradients() -> None:
    seen: list[Any] = []
    layer = fw.nn.Linear(2, 3)
    module = fw.nn.parallel.DistributedDataParallel(layer)
    module.register_comm_hook(seen, doubled)
    module(fw.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0]] * 3
    assert layer.bias.grad.tolist() == [2.0] * 3
    assert seen == [(0, True, [(3,), (3, 2)], [(3,), (3, 2)])]


def test_wrong_hooks_are_refused() -> None:
    module = fw.nn.parallel.DistributedDataParallel(fw.nn.Linear(2, 3))
    with pytest.raises(TypeError, match="hook is a int"):
        module.register_comm_hook(None, 3)  # type: ignore[arg-type]  # no function
    module.register_comm_hook([], doubled)
    with pytest.raises(RuntimeError, match="there is a hook already"):
        module.register_comm_hook([], doubled)


def test_a_hook_returns_as_many_elements() -> None:
    def short(state: object, bucket: GradBucket) -> Future[fw.Tensor]:
        future: Future[fw.Tensor] = Future()
        future.set_result(bucket.buffer()[:1])
        return future

    module = fw.nn.parallel.DistributedDataParallel(fw.nn.Linear(2, 3))
    module.register_comm_hook(None, short)
    with pytest.raises(RuntimeError, match="future of a tensor of"):
        module(fw.ones(1, 2)).sum().backward()


def test_buckets_have_a_size_and_one_dtype() -> None:
    sizes = [3, 1, 20, 2, 1]
    tensors = [fw.zeros(each) for each in sizes]
    tensors.insert(1, fw.zeros(3, dtype=fw.float64))
    tensors.append(fw.zeros(1, dtype=fw.float64))
    assert buckets_of(tensors, 32) == [[0, 2], [3], [4, 5], [1, 6]]
    assert buckets_of([], 32) == []


def test_the_last_buckets_are_small() -> None:
    """Each has half of what is left, until it is little; what is large counts apart."""
    tensors = [fw.zeros(2) for _ in range(64)]
    found = buckets_of(tensors, 128, 16)
    assert [len(each) for each in found] == [16, 16, 16, 8, 4, 2, 2]
    assert [place for each in found for place in each] == list(range(64))
    # As of tied words of a model, whose gradient is complete at the end.
    large = [*tensors, fw.zeros(1000)]
    assert buckets_of(large, 128, 16) == [*found, [64]]
    assert [len(each) for each in buckets_of(tensors, 8, 16)] == [1] * 64
    assert [len(each) for each in buckets_of(tensors, 1 << 20, 1 << 20)] == [64]
    uneven = [fw.zeros(each) for each in (8, 8, 1, 6, 3, 5, 2)]
    assert buckets_of(uneven, 64, 16) == [[0, 1], [2, 3], [4, 5], [6]]
    # Those of one dtype do not count for another.
    both = [each for one in tensors for each in (one, fw.zeros(1, dtype=fw.int32))]
    places = [each for each in buckets_of(both, 128, 16) if not each[0] % 2]
    assert [len(each) for each in places] == [len(each) for each in found]
