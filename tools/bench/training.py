"""Workloads by the wall clock: host cost of an op, optimizer steps, training steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import vkbackend.framework as fw
from vkbackend.framework import Tensor

from .workload import Bench, Case, workload

_OPS = 256
_WARM_STEPS = 3


@workload("dispatch_add_tiny_wall", full=(4,), small=(4,))
def tiny(bench: Bench, count: int) -> Case:
    """Call an op on a tensor of a few elements; the time of one call."""
    x, px = bench.uniform(count)

    def ours() -> list[Tensor]:
        return [x + 1.0 for _ in range(_OPS)]

    def theirs() -> list[Any]:
        return [px + 1.0 for _ in range(_OPS)]

    return Case(
        ours, bench.choose(lambda torch: theirs(), theirs), wall=True, runs=_OPS
    )


@workload("adamw_{}x{}", full=(100, 1 << 20), small=(100, 4096))
def adamw(bench: Bench, tensors: int, count: int) -> Case:
    """Change many parameters by AdamW; PyTorch in its fused form on a GPU."""
    pairs = [bench.uniform(count) for _ in range(tensors)]
    grads = [bench.uniform(count) for _ in range(tensors)]
    for (mine, theirs), (grad, peer_grad) in zip(pairs, grads, strict=True):
        mine.requires_grad_().grad = grad
        if bench.peer.torch is not None:
            theirs.requires_grad_().grad = peer_grad
    optimizer = fw.optim.AdamW([mine for mine, _ in pairs])
    peer_optimizer = None
    if bench.peer.torch is not None:
        peer_optimizer = bench.peer.torch.optim.AdamW(
            [theirs for _, theirs in pairs], fused=bench.peer.cuda or None
        )

    def ours() -> list[Tensor]:
        optimizer.step()
        return [pairs[0][0].detach(), pairs[-1][0].detach()]

    def theirs_step(torch: Any) -> list[Any]:
        assert peer_optimizer is not None
        peer_optimizer.step()
        return [pairs[0][1], pairs[-1][1]]

    return Case(ours, bench.choose(theirs_step), moved=7 * 4 * tensors * count)


Parameters = Mapping[str, Any]
Loss = Callable[[Any, Parameters, Any, Any], Any]


Step = Callable[[], Sequence[Any]]


def _step(
    module: Any,
    loss: Loss,
    parameters: Parameters,
    x: Any,
    y: Any,
    **options: Any,
) -> Step:
    """Return a training step, here or in PyTorch: both have the names it uses."""
    functional = module.nn.functional
    for parameter in parameters.values():
        parameter.requires_grad_()
    optimizer = module.optim.AdamW(list(parameters.values()), lr=1e-3, **options)

    def step() -> list[Any]:
        optimizer.zero_grad()
        value = loss(functional, parameters, x, y)
        value.backward()
        optimizer.step()
        return [value.detach()]

    return step


def _replayed(torch: Any, step: Step) -> Step:
    """Return a step of PyTorch as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()

    def replay() -> Sequence[Any]:
        graph.replay()
        return result

    return replay


def _training(
    bench: Bench,
    loss: Loss,
    shapes: Mapping[str, tuple[int, ...]],
    x: Any,
    y: Any,
    replayed: bool = False,
) -> Case:
    """Return the case of a training step, each as it is called or as it is replayed."""
    made = {}
    for name, shape in shapes.items():
        bound = shape[-1] ** -0.5 if len(shape) > 1 else 1.0
        made[name] = bench.uniform(*shape, low=-bound, high=bound)
    ours = {name: pair[0] for name, pair in made.items()}
    theirs = {name: pair[1] for name, pair in made.items()}
    step = _step(fw, loss, ours, x[0], y[0])
    if replayed:
        step = fw.jit(step)
        for _ in range(_WARM_STEPS):
            step()
    return Case(
        step,
        _peer_step(bench, loss, theirs, (x[1], y[1]), replayed),
        tolerance=1e-4,
        wall=True,
    )


def _peer_step(
    bench: Bench,
    loss: Loss,
    parameters: Parameters,
    data: tuple[Any, Any],
    replayed: bool,
) -> Step | None:
    torch = bench.peer.torch
    if torch is None:
        return None
    if replayed and bench.peer.cuda:
        step = _step(torch, loss, parameters, *data, capturable=True, fused=True)
        return _replayed(torch, step)
    step = _step(torch, loss, parameters, *data)
    if replayed:
        for _ in range(_WARM_STEPS):
            step()
    return step


def _mlp_loss(functional: Any, p: Parameters, x: Any, y: Any) -> Any:
    for layer in range(2):
        x = functional.relu(functional.linear(x, p[f"w{layer}"], p[f"b{layer}"]))
    return functional.cross_entropy(functional.linear(x, p["w2"], p["b2"]), y)


def _mlp(bench: Bench, batch: int, replayed: bool) -> Case:
    sizes = (784, 512, 256, 10)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, (inner, outer) in enumerate(itertools.pairwise(sizes)):
        shapes |= {f"w{layer}": (outer, inner), f"b{layer}": (outer,)}
    x, y = bench.uniform(batch, sizes[0]), bench.whole(batch, below=sizes[-1])
    return _training(bench, _mlp_loss, shapes, x, y, replayed)


@workload("mlp_step_b{}_eager_wall", full=(128,), small=(128,))
def mlp(bench: Bench, batch: int) -> Case:
    """Train a perceptron of three layers: forward, backward and AdamW."""
    return _mlp(bench, batch, False)


@workload("mlp_step_b{}_cudagraph_wall", full=(128,), small=(128,))
def replayed_mlp(bench: Bench, batch: int) -> Case:
    """Replay the same step, which the peer does as a CUDA graph."""
    return _mlp(bench, batch, True)


_WIDTH, _HEADS, _BLOCKS, _WORDS = 128, 4, 2, 256


def _block(f: Any, p: Parameters, x: Any, b: int) -> Any:
    batch, length, width = x.shape
    h = f.layer_norm(x, (width,), p[f"n1{b}"], p[f"m1{b}"])
    qkv = f.linear(h, p[f"qkv{b}"]).reshape(batch, length, 3, _HEADS, width // _HEADS)
    q, k, v = (qkv[:, :, at].transpose(1, 2) for at in range(3))
    h = f.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + f.linear(h.transpose(1, 2).reshape(batch, length, width), p[f"o{b}"])
    h = f.layer_norm(x, (width,), p[f"n2{b}"], p[f"m2{b}"])
    return x + f.linear(f.gelu(f.linear(h, p[f"up{b}"])), p[f"down{b}"])


def _transformer_loss(f: Any, p: Parameters, x: Any, y: Any) -> Any:
    h = f.embedding(x, p["words"]) + p["places"]
    for b in range(_BLOCKS):
        h = _block(f, p, h, b)
    logits = f.linear(h, p["words"])
    return f.cross_entropy(logits.reshape(-1, _WORDS), y.reshape(-1))


def _transformer(bench: Bench, batch: int, length: int, replayed: bool) -> Case:
    shapes: dict[str, tuple[int, ...]] = {
        "words": (_WORDS, _WIDTH),
        "places": (length, _WIDTH),
    }
    for b in range(_BLOCKS):
        shapes |= {f"{name}{b}": (_WIDTH,) for name in ("n1", "m1", "n2", "m2")}
        shapes |= {f"qkv{b}": (3 * _WIDTH, _WIDTH), f"o{b}": (_WIDTH, _WIDTH)}
        shapes |= {f"up{b}": (4 * _WIDTH, _WIDTH), f"down{b}": (_WIDTH, 4 * _WIDTH)}
    x = bench.whole(batch, length, below=_WORDS)
    y = bench.whole(batch, length, below=_WORDS)
    return _training(bench, _transformer_loss, shapes, x, y, replayed)


@workload("tinytransformer_eager", full=(16, 128), small=(4, 32))
def transformer(bench: Bench, batch: int, length: int) -> Case:
    """Train a transformer of two blocks: forward, backward and AdamW."""
    return _transformer(bench, batch, length, False)


@workload("tinytransformer_cudagraph", full=(16, 128), small=(4, 32))
def replayed_transformer(bench: Bench, batch: int, length: int) -> Case:
    """Replay the same step, which the peer does as a CUDA graph."""
    return _transformer(bench, batch, length, True)
