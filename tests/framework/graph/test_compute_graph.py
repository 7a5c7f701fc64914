"""Graphs built by hand: the reference's counts, checks, values, replay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import GraphError
from vkbackend.framework.graph.compute_graph import ComputeGraph, Params, TensorOp

Floats = NDArray[np.float32]
Make = Callable[..., fw.Tensor]


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(make: Make, hidden: int, kv: int, m: int, size: int) -> ComputeGraph:
    """Return the reference's layer: input - norm - q, k, v - attention - add."""
    graph = ComputeGraph()
    x = graph.add_leaf(make(random(m, hidden)), (hidden, 1, m, 1))
    gamma = make(random(hidden, seed=1))
    norm = graph.add_op(
        TensorOp.RMS_NORM, (hidden, 1, m, 1), [x], Params(gamma=gamma, scalar=1e-6)
    )
    q, k, v = (
        graph.add_op(
            TensorOp.MUL_MAT,
            (width, hidden, m, 1),
            [norm],
            Params(weight=make(random(width, hidden, seed=seed) / hidden**0.5)),
        )
        for seed, width in ((2, hidden), (3, kv), (4, kv))
    )
    attended = graph.add_op(TensorOp.SOFT_MAX, (size, hidden // size, m, 1), [q, k, v])
    graph.add_op(TensorOp.ADD, (hidden, 1, m, 1), [attended, x])
    return graph


def expected_layer(hidden: int, kv: int, m: int, size: int) -> Any:
    """Return what PyTorch makes of it, in float64."""
    x, gamma = (
        torch.from_numpy(a).double()
        for a in (random(m, hidden), random(hidden, seed=1))
    )
    norm = torch.nn.functional.rms_norm(x, (hidden,), gamma, 1e-6)
    q, k, v = (
        (
            norm
            @ torch.from_numpy(random(width, hidden, seed=seed) / hidden**0.5)
            .double()
            .T
        )
        .reshape(m, -1, size)
        .transpose(0, 1)
        for seed, width in ((2, hidden), (3, kv), (4, kv))
    )
    out = torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], is_causal=True, enable_gqa=True
    )
    return (out[0].transpose(0, 1).reshape(m, hidden) + x).numpy()


def test_an_empty_graph() -> None:
    graph = fw.graph.ComputeGraph()
    assert (graph.run(), len(graph), graph.n_ops) == (0, 0, 0)
    assert str(graph) == "ComputeGraph: 0 nodes, 0 leafs"


def test_a_simple_graph(make: Make) -> None:
    """3 nodes, 1 leaf, 2 ops."""
    graph = ComputeGraph()
    x = graph.add_leaf(make([[1.0, -2.0], [3.0, 0.0]]), (2, 1, 2, 1))
    y = graph.add_op(TensorOp.SILU, (2, 1, 2, 1), [x])
    z = graph.add_op(TensorOp.MUL, (2, 1, 2, 1), [x, y])
    assert (len(graph), graph.n_leafs, graph.n_ops) == (3, 1, 2)
    assert graph.run() == 2
    values = np.array([[1.0, -2.0], [3.0, 0.0]])
    assert graph[z].data is not None
    np.testing.assert_allclose(
        graph[z].data.numpy(), values**2 / (1 + np.exp(-values)), rtol=1e-6
    )


def test_the_layer_of_the_reference(make: Make) -> None:
    """Hidden 1536, keys and values 256, 4 rows: 6 dispatches."""
    graph = layer(make, 1536, 256, 4, 128)
    assert (len(graph), graph.n_ops) == (7, 6)
    assert graph.run() == 6
    result = graph[6].data
    assert result is not None
    expected = expected_layer(1536, 256, 4, 128)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_text(make: Make) -> None:
    text = str(layer(make, 8, 4, 2, 2)).splitlines()
    assert text[:4] == [
        "ComputeGraph: 7 nodes, 1 leafs",
        "%0 = leaf [8, 1, 2, 1]",
        "%1 = RmsNorm(%0) [8, 1, 2, 1] gamma=(8,) scalar=1e-06",
        "%2 = MulMat(%1) [8, 8, 2, 1] weight=(8, 8)",
    ]
    assert text[5:] == [
        "%4 = MulMat(%1) [4, 8, 2, 1] weight=(4, 8)",
        "%5 = SoftMax(%2, %3, %4) [2, 4, 2, 1]",
        "%6 = Add(%5, %0) [8, 1, 2, 1]",
    ]


@pytest.mark.core
def test_one_dispatch_an_operation(gpu: GpuDevice, device: vkbackend.Device) -> None:
    """What fusion would join stays apart, and all of it is one submission."""

    def make(data: Any) -> fw.Tensor:
        return fw.tensor(data, device=gpu)

    graph = ComputeGraph()
    shape = (64, 1, 3, 1)
    x = graph.add_leaf(make(random(3, 64)), shape)
    norm = graph.add_op(TensorOp.RMS_NORM, shape, [x], Params(scalar=1e-6))
    weight = Params(weight=make(random(64, 64)))
    gate = graph.add_op(TensorOp.MUL_MAT, (64, 64, 3, 1), [norm], weight)
    opened = graph.add_op(TensorOp.SILU, shape, [gate])
    product = graph.add_op(TensorOp.MUL, shape, [opened, gate])
    copied = graph.add_op(TensorOp.COPY, (64, 3, 1, 1), [product])
    graph.add_op(TensorOp.ADD, shape, [copied, x])
    pending = make([1.0]) + 1
    fw.eval(pending)
    before = device.counters.snapshot()
    assert graph.run() == 6
    counted = device.counters - before
    assert (counted.dispatches, counted.submits) == (6, 1)
    # Afterwards operations join again.
    before = device.counters.snapshot()
    fw.eval((pending * 2 + 1).relu())
    assert (device.counters - before).dispatches == 1


@pytest.mark.core
def test_replay_schedules_and_builds_nothing(
    gpu: GpuDevice, device: vkbackend.Device
) -> None:
    def make(data: Any) -> fw.Tensor:
        return fw.tensor(data, device=gpu)

    graph = ComputeGraph()
    x = graph.add_leaf(make(random(2, 24)), (24, 1, 2, 1))
    turned = graph.add_op(TensorOp.ROPE, (8, 3, 2, 1), [x])
    norm = graph.add_op(TensorOp.RMS_NORM, (24, 1, 2, 1), [turned], Params(scalar=1e-6))
    product = graph.add_op(
        TensorOp.MUL_MAT,
        (5, 24, 2, 1),
        [norm],
        Params(weight=make(random(5, 24, seed=1))),
    )
    graph.run()
    for step in range(1, 4):
        data, weight = random(2, 24, seed=step), random(5, 24, seed=step + 10)
        graph.set_leaf(x, make(data))
        graph.set_params(turned, integer=7 * step)
        graph.set_params(product, weight=make(weight))
        plans, before = len(gpu.plans), device.counters.snapshot()
        assert graph.run() == 3
        counted = device.counters - before
        assert (counted.pipeline_builds, counted.shader_compiles) == (0, 0)
        assert (counted.submits, counted.host_reads) == (1, 0)
        assert len(gpu.plans) == plans
        result = graph[product].data
        assert result is not None
        eager = fw.ops.rope(
            make(data).reshape(2, 3, 8).transpose(0, 1), 7 * step
        ).transpose(0, 1)
        eager = fw.ops.rms_norm(eager.reshape(2, 24), (24,), None, 1e-6)
        expected = fw.ops.linear(eager, make(weight)).numpy()
        np.testing.assert_array_equal(result.numpy(), expected)


def test_rope_as_pytorch_computes_it(make: Make) -> None:
    x = random(3, 2 * 6)
    graph = ComputeGraph()
    leaf = graph.add_leaf(make(x), (12, 1, 3, 1))
    at = graph.add_op(TensorOp.ROPE, (6, 2, 3, 1), [leaf], Params(None, None, 100.0, 5))
    graph.run()
    heads = x.reshape(3, 2, 6).astype(np.float64)
    angles = np.arange(5, 8)[:, None, None] * 100.0 ** (-np.arange(3) / 3)
    a, b = heads[..., :3], heads[..., 3:]
    turned = [
        a * np.cos(angles) - b * np.sin(angles),
        b * np.cos(angles) + a * np.sin(angles),
    ]
    expected = np.concatenate(turned, -1).reshape(3, 12)
    result = graph[at].data
    assert result is not None
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_attention_of_ones_own(make: Make) -> None:
    seen: list[tuple[Any, ...]] = []

    def attention(q: fw.Tensor, k: fw.Tensor, v: fw.Tensor, layer: int) -> fw.Tensor:
        seen.append((q.shape, k.shape, layer))
        return q * 2

    graph = ComputeGraph(attention)
    q = graph.add_leaf(make(random(3, 8)), (8, 1, 3, 1))
    k = graph.add_leaf(make(random(5, 4)), (4, 1, 5, 1))
    at = graph.add_op(TensorOp.SOFT_MAX, (2, 4, 3, 1), [q, k, k], Params(integer=9))
    assert graph.run() == 1
    assert seen == [((4, 3, 2), (2, 5, 2), 9)]
    result = graph[at].data
    assert result is not None
    np.testing.assert_array_equal(result.numpy(), 2 * random(3, 8))


def test_timing(make: Make) -> None:
    graph = layer(make, 8, 4, 2, 2)
    graph.run()
    assert [graph[at].seconds for at in range(7)] == [None] * 7
    graph.run(timing=True)
    seconds = [graph[at].seconds for at in range(7)]
    assert seconds[0] is None
    assert all(0 < (took or 0) < 60 for took in seconds[1:])


def test_an_error_names_its_node(make: Make, place: Device) -> None:
    graph = ComputeGraph()
    x = graph.add_leaf(make(random(2, 4)), (4, 1, 2, 1))
    silu = graph.add_op(TensorOp.SILU, (4, 1, 2, 1), [x])
    whole = fw.tensor(np.ones((3, 4), np.int32), device=place)
    at = graph.add_op(TensorOp.MUL_MAT, (3, 4, 2, 1), [silu], Params(weight=whole))
    with pytest.raises(
        GraphError, match=r"ComputeGraph: node 2 \(MulMat\): "
    ) as caught:
        graph.run()
    assert caught.value.node == at
    graph.set_params(at, weight=make(random(3, 4)))
    assert graph.run() == 2


def test_what_does_not_fit_is_refused_when_it_is_added(make: Make) -> None:
    graph = ComputeGraph()
    x = graph.add_leaf(make(random(2, 4)), (4, 1, 2, 1))
    shape = (4, 1, 2, 1)
    weight = make(random(3, 5))
    rows: list[tuple[TensorOp, Any, list[int], Params, str]] = [
        (TensorOp.SILU, shape, [1], Params(), "there is no node 1 yet; there are 1"),
        (TensorOp.SILU, shape, [-1], Params(), "there is no node -1"),
        (TensorOp.ADD, shape, [x], Params(), "Add takes 2 inputs; 1 are given"),
        (TensorOp.NONE, shape, [], Params(), "leaf takes no inputs"),
        (TensorOp.SILU, (4, 1, 2), [x], Params(), "it must be four"),
        (TensorOp.SILU, (4, 1, 0, 1), [x], Params(), "it must be four"),
        (TensorOp.SILU, (4, 1, 2.0, 1), [x], Params(), "it must be four"),
        (TensorOp.SILU, (5, 1, 2, 1), [x], Params(), r"not fit inputs .*\[\(2, 4\)\]"),
        (TensorOp.MUL_MAT, (3, 5, 2, 1), [x], Params(weight), "not fit inputs"),
        (
            TensorOp.MUL_MAT,
            (3, 4, 2, 1),
            [x],
            Params(weight),
            r"is \(3, 5\); it must be \(3, 4\)",
        ),
        (TensorOp.MUL_MAT, (3, 4, 2, 1), [x], Params(), "weight is None"),
        (TensorOp.RMS_NORM, shape, [x], Params(None, weight), r"gamma is \(3, 5\)"),
        (TensorOp.ROPE, (3, 2, 2, 1), [x], Params(), "not fit inputs"),
        (TensorOp.COPY, (3, 3, 1, 1), [x], Params(), "not fit inputs"),
        (TensorOp.SOFT_MAX, (3, 1, 2, 1), [x, x, x], Params(), "not fit inputs"),
    ]
    for op, given, inputs, params, message in rows:
        with pytest.raises(GraphError, match=message) as caught:
            graph.add_op(op, given, inputs, params)
        assert len(graph) == 1
        assert caught.value.node in (1, -1)
    with pytest.raises(GraphError, match=r"there is no node 0\.0 yet"):
        graph.add_op(TensorOp.SILU, shape, [0.0])  # type: ignore[list-item]
    with pytest.raises(GraphError, match="the tensor is"):
        graph.add_leaf(make(random(3, 4)), shape)
    with pytest.raises(GraphError, match="the tensor is"):
        graph.set_leaf(x, make(random(3, 4)))
    silu = graph.add_op(TensorOp.SILU, shape, [x])
    with pytest.raises(GraphError, match="node 1 is Silu; it must be a leaf"):
        graph.set_leaf(silu, make(random(2, 4)))
    norm = graph.add_op(TensorOp.RMS_NORM, shape, [x])
    with pytest.raises(GraphError, match="gamma"):
        graph.set_params(norm, gamma=weight)
    assert graph[norm].params == Params()


class Cache:
    """Attention that keeps keys and values by layer, with positions of its own."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[fw.Tensor, fw.Tensor]] = {}

    def __call__(
        self, q: fw.Tensor, k: fw.Tensor, v: fw.Tensor, layer: int
    ) -> fw.Tensor:
        first = self.kept[layer][0].shape[1] if layer in self.kept else 0
        q, k = fw.ops.rope(q, first), fw.ops.rope(k, first)
        if layer in self.kept:
            old_k, old_v = self.kept[layer]
            k, v = fw.cat([old_k, k], 1), fw.cat([old_v, v], 1)
        self.kept[layer] = k, v
        rows, known = q.shape[1], k.shape[1]
        past = np.tril(np.ones((rows, known), bool), known - rows)
        mask = fw.tensor(past, device=q.device)
        return fw.ops.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def decoder(make: Make, m: int, layers: int, cache: Cache) -> tuple[ComputeGraph, int]:
    """Return layers of 14 operations over m rows of 16, and the last node."""
    graph = ComputeGraph(cache)
    wide = (16, 1, m, 1)
    at = graph.add_leaf(make(np.zeros((m, 16), np.float32)), wide)
    for layer in range(layers):

        def product(rows: int, columns: int, x: int, seed: int) -> int:
            weight = make(random(rows, columns, seed=seed) / 4)
            shape = (rows, columns, m, 1)
            return graph.add_op(TensorOp.MUL_MAT, shape, [x], Params(weight))

        seed = 10 * layer
        norm = Params(gamma=make(random(16, seed=seed)), scalar=1e-6)
        x = graph.add_op(TensorOp.RMS_NORM, wide, [at], norm)
        q, k, v = (product(n, 16, x, seed + n) for n in (16, 8, 8))
        call = Params(integer=layer)
        x = graph.add_op(TensorOp.SOFT_MAX, (4, 4, m, 1), [q, k, v], call)
        at = graph.add_op(TensorOp.ADD, wide, [at, product(16, 16, x, seed + 1)])
        x = graph.add_op(TensorOp.RMS_NORM, wide, [at], norm)
        inner = (24, 1, m, 1)
        gate = graph.add_op(TensorOp.SILU, inner, [product(24, 16, x, seed + 2)])
        both = [gate, product(24, 16, x, seed + 3)]
        x = product(16, 24, graph.add_op(TensorOp.MUL, inner, both), seed + 4)
        at = graph.add_op(TensorOp.ADD, wide, [at, x])
    return graph, at


def test_prefill_and_decode_agree(make: Make) -> None:
    """Six rows at once, and four rows and then two, one by one."""
    rows = random(6, 16)
    whole, last = decoder(make, 6, 2, Cache())
    whole.set_leaf(0, make(rows))
    assert whole.run() == 2 * 14
    cache = Cache()
    prefill, _ = decoder(make, 4, 2, cache)
    prefill.set_leaf(0, make(rows[:4]))
    prefill.run()
    step, _ = decoder(make, 1, 2, cache)
    found = [prefill[last].data]
    for row in (4, 5):
        step.set_leaf(0, make(rows[row : row + 1]))
        assert step.run() == 2 * 14
        found.append(step[last].data)
    expected = whole[last].data
    assert expected is not None
    got = np.concatenate([part.numpy() for part in found if part is not None])
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-4)


def test_a_graph_that_has_grown_runs_as_a_new_one(make: Make) -> None:
    graph = ComputeGraph()
    shape = (4, 1, 2, 1)
    x = graph.add_leaf(make(random(2, 4)), shape)
    double = graph.add_op(TensorOp.ADD, shape, [x, x])
    assert graph.run() == 1
    square = graph.add_op(TensorOp.MUL, shape, [double, double])
    assert graph[square].data is None
    assert graph.run() == 2
    result = graph[square].data
    assert result is not None
    np.testing.assert_allclose(result.numpy(), 4 * random(2, 4) ** 2, rtol=1e-6)


def decoding(gpu: GpuDevice, wrap: Callable[..., Any], inside: bool) -> list[Any]:
    """Return what runs give whose leaf, position and cache change."""
    cache: list[fw.Tensor] = []

    def attention(q: fw.Tensor, k: fw.Tensor, v: fw.Tensor, _: int) -> fw.Tensor:
        cache.append(k)
        return q * len(cache) + v

    graph = ComputeGraph(attention)
    x = graph.add_leaf(fw.zeros((1, 2), device=gpu), (2, 1, 1, 1))
    turned = graph.add_op(TensorOp.ROPE, (2, 1, 1, 1), [x])
    out = graph.add_op(TensorOp.SOFT_MAX, (2, 1, 1, 1), [turned] * 3)

    def step(row: fw.Tensor, position: int) -> fw.Tensor:
        if inside:
            graph.set_leaf(x, row)
            graph.set_params(turned, integer=position)
        graph.run()
        data = graph[out].data
        assert data is not None
        return data * 1

    wrapped = wrap(step)
    found = []
    for k in range(7):
        row = fw.tensor([[3.0, 4.0 + k]], device=gpu)
        if not inside:
            graph.set_leaf(x, row)
            graph.set_params(turned, integer=k)
        data = wrapped(row, k % 2 if inside else 0)
        kept = graph[out].data
        assert kept is not None
        found.append((data.tolist(), kept.tolist()))
    return found


@pytest.mark.core
@pytest.mark.parametrize("inside", [True, False])
def test_under_jit_it_runs_as_it_is(gpu: GpuDevice, inside: bool) -> None:
    expected = decoding(gpu, lambda step: step, inside)
    with pytest.warns(UserWarning, match="ComputeGraph.run leaves results in nodes"):
        assert decoding(gpu, fw.jit, inside) == expected
