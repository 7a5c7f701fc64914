"""Buckets of gradients are exchanged while a backward pass runs."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.communication.group import Group, alone
from vkbackend.framework.communication.transport import TransportChoice
from vkbackend.framework.nn import gradient_reducer
from vkbackend.framework.nn.gradient_reducer import (
    BUCKETS,
    TRANSPORT_BUCKETS,
    BucketSizes,
    Reducer,
    bucket_sizes,
)


def parameter(value: float) -> nn.Parameter:
    return nn.Parameter(fw.full((2,), value))


def reducer_of(group: Group, *parameters: nn.Parameter) -> Reducer:
    """Return a reducer with a bucket for each parameter."""
    named = [(f"p{at}", each) for at, each in enumerate(parameters)]
    return Reducer(group, named, 1)


def test_buckets_have_sizes_of_their_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a size is asked for: then only the last ones are the transport's."""

    def work(group: Group) -> list[list[int]]:
        layers = nn.Sequential(*[nn.Linear(1, 1) for _ in range(4)])
        usual = nn.DataParallel(layers, group)
        assert usual.bucket_bytes == 24
        small = nn.DataParallel(layers, group, bucket_bytes=12)
        return [
            [len(each) for each in model.reducer.buckets] for model in (usual, small)
        ]

    sizes = BucketSizes(24, 8)
    monkeypatch.setitem(gradient_reducer.TRANSPORT_BUCKETS, "host", sizes)
    assert as_threads(monkeypatch, 2).run(work) == [[[4, 2, 2], [3, 2, 2, 1]]] * 2
    group = alone()
    assert bucket_sizes(group) == BUCKETS
    for name, expected in TRANSPORT_BUCKETS.items():
        group.transport = TransportChoice(name, "it was asked for")
        assert bucket_sizes(group) == expected


def test_exchanges_begin_before_the_pass_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        first, second, third = (parameter(3.0) for _ in range(3))
        reducer = reducer_of(group, first, second, third)
        seen = []
        first.register_hook(lambda _: seen.append(third.grad.tolist()))
        x = (first * 1).exp()
        ((x * second).exp() * third).sum().backward()
        assert reducer._pass is None
        return seen, third.grad.tolist()

    for seen, grad in as_threads(monkeypatch, 2).run(work):
        assert seen == [grad]


def test_buckets_are_joined_by_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags are padded; all ranks know who used what, with more than eight, too."""

    def work(group: Group) -> Any:
        parameters = [nn.Parameter(fw.ones(8)) for _ in range(9)]
        named = [(f"p{at}", each) for at, each in enumerate(parameters)]
        reducer = Reducer(group, named, 1 << 20)
        (places,) = reducer.buckets
        own = parameters[group.rank : 8 : 2]
        fw.stack(own).sum().backward()
        bucket, used = reducer._packed(0)
        assert len(places) == len(used) == 9
        assert bucket.buffer().numel() == 9 * 8 + 16
        return [each.grad is None or each.grad.tolist() for each in parameters]

    uneven = [nn.Parameter(fw.ones(size)) for size in (4, 16, 10, 8)]
    named = [(f"p{at}", each) for at, each in enumerate(uneven)]
    assert Reducer(alone(), named, 1 << 20).buckets == [[0, 2, 1, 3]]
    half = [0.5] * 8
    assert as_threads(monkeypatch, 2).run(work) == [[*[half] * 8, True]] * 2


def test_a_failed_pass_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        first, second = parameter(2.0), parameter(group.rank + 1.0)
        reducer = reducer_of(group, first, second)

        def fail(_: fw.Tensor) -> None:
            raise ArithmeticError

        handle = first.register_hook(fail)
        with pytest.raises(ArithmeticError):
            (first.exp() * second).sum().backward()
        handle.remove()
        first.grad = second.grad = None
        (first * second).sum().backward()
        del reducer
        return first.grad.tolist(), second.grad.tolist()

    for found in as_threads(monkeypatch, 2).run(work):
        assert found == ([1.5, 1.5], [2.0, 2.0])


def test_parts_of_a_gradient_after_its_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(group: Group) -> None:
        own = parameter(1.0)
        reducer = reducer_of(group, own)

        def more(_: fw.Tensor) -> None:
            with fw.enable_grad():
                (own * 3).sum().backward()

        x = fw.ones(2, requires_grad=True)
        x.register_hook(more)
        with pytest.raises(GradError, match="p0 was exchanged, and another"):
            ((x * 2) * own).sum().backward()
        del reducer

    as_threads(monkeypatch, 2).run(work)


def test_what_cannot_be_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> None:
        table = nn.Embedding(3, 2, sparse=True)
        reducer = reducer_of(group, table.weight)
        with pytest.raises(NotImplementedError, match="gradient of p0 is sparse"):
            table(fw.tensor([1])).sum().backward()
        del reducer

    as_threads(monkeypatch, 2).run(work)


def test_unused_within_jit() -> None:
    used, unused = parameter(1.0), parameter(2.0)
    reducer = reducer_of(alone(), used, unused)
    reducer.attach()

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        (x * used).sum().backward()
        return used.grad

    with pytest.raises(GradError, match="p1 got no gradient, and within jit ranks"):
        step(fw.ones(2))
