"""Wall-clock workloads: host overhead of an op, optimizer steps, training steps."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import vkbackend.framework as fw
from vkbackend.framework import Tensor

from .models import Sizes, perceptron, resnet18, transformer
from .workload import Bench, Case, workload

_OPS = 256
_WARM_STEPS = 5
# Tolerance of a first loss; rounding differences grow in later steps.
LOSS_TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}


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


ExecutionMode = Literal["eager", "cudagraph", "compiled"]
"""Execution mode of the peer's step. Ours is replayed for the last two."""

Step = Callable[[], Sequence[Any]]
Build = Callable[[Any], Any]


class StepOptions(NamedTuple):
    """Arithmetic of a training step, the same here and in the peer.

    Attributes
    ----------
    autocast : bool
        Whether the forward pass runs under bfloat16 autocast.
    precision : str
        Of float32 products, as `set_float32_matmul_precision` takes it.
    """

    autocast: bool = False
    precision: str = "highest"


EXACT = StepOptions()
"""Everything in the dtype of the model."""


def _step(
    library: Any, model: Any, x: Any, y: Any, using: StepOptions, **options: Any
) -> Step:
    """Return a training step, here or in PyTorch: both have the names it uses."""
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3, **options)

    def step() -> list[Any]:
        optimizer.zero_grad()
        # Without a block where there is no autocast: an idle one takes time too.
        block = (
            library.autocast("cuda", dtype=library.bfloat16)
            if using.autocast
            else contextlib.nullcontext()
        )
        with block:
            found = model(x)
        loss = library.nn.functional.cross_entropy(found.float(), y)
        loss.backward()
        optimizer.step()
        return [loss.detach()]

    return step


def _with_precision(library: Any, step: Step, precision: str) -> Step:
    """Return a step that runs, and is replayed, in a precision of its own."""
    if precision == "highest":
        return step

    def stepped() -> Sequence[Any]:
        before = library.get_float32_matmul_precision()
        library.set_float32_matmul_precision(precision)
        try:
            return step()
        finally:
            library.set_float32_matmul_precision(before)

    return stepped


def cuda_graph(torch: Any, step: Step) -> Step:
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

    def replay(_held: Step = step) -> Sequence[Any]:
        # The graph holds the addresses of what the step reads, not the step itself.
        graph.replay()
        return result

    return replay


def warm(step: Step) -> Step:
    """Return a step after its first runs, in which it may be compiled."""
    for _ in range(_WARM_STEPS):
        step()
    return step


def warm_replays(step: Step) -> None:
    """Warm a jitted step; what is not replayed must not be timed as if.

    Raises
    ------
    UserWarning
        With the reason why it is not.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "jit: .* runs without replay")
        warm(step)


def training_case(
    bench: Bench,
    build: Build,
    data: tuple[tuple[Any, Any], tuple[Any, Any]],
    how: ExecutionMode,
    dtype: str = "float32",
    using: StepOptions = EXACT,
) -> Case:
    """Return the case of a training step: forward, backward and AdamW.

    `build` makes the model in the library that it is given; `data` are inputs and
    classes, each here and in the peer.
    """
    (x, peer_x), (y, peer_y) = data
    model = build(fw).to(bench.device)
    theirs, put_back = None, []
    torch = bench.peer.torch
    if torch is not None:
        peer_model = build(torch)
        model.load_state_dict(_state(model, peer_model))
        peer_model.to("cuda" if bench.peer.cuda else "cpu", getattr(torch, dtype))
        put_back.append(_kept(peer_model))
        theirs = _peer_step(bench, peer_model, peer_x, peer_y, how, using)
    put_back.append(_kept(model.to(dtype)))
    step = _step(fw, model, x, y, using)
    jitted = step if how == "eager" else fw.jit(step)
    step = _with_precision(fw, jitted, using.precision)
    if how != "eager":
        warm_replays(step)
        # Losses of the same weights are compared: AdamW's first steps are almost as
        # long for a gradient of 1e-9 as for one of 1, so that after a few of them those
        # of a mobile net in PyTorch are 1e-3 to 1e-1 off those in its float64.
        for restore in put_back:
            restore()
    exact = using == EXACT
    tolerance = LOSS_TOLERANCE[dtype if exact else "bfloat16"]
    return Case(step, theirs, tolerance=tolerance, wall=True)


def _kept(model: Any) -> Callable[[], object]:
    """Return what gives a model, here or in PyTorch, the values that it has now."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return lambda: model.load_state_dict(state)


def _state(model: Any, peer_model: Any) -> dict[str, Tensor]:
    """Return what the peer's model has of each value that ours has."""
    theirs = peer_model.state_dict()
    return {
        name: fw.tensor(theirs[name].numpy(), dtype=value.dtype)
        for name, value in model.state_dict().items()
    }


def _peer_step(
    bench: Bench, model: Any, x: Any, y: Any, how: ExecutionMode, using: StepOptions
) -> Step:
    torch = bench.peer.torch
    if how == "cudagraph" and bench.peer.cuda:
        step = _step(torch, model, x, y, using, capturable=True, fused=True)
        return cuda_graph(torch, step)
    if how == "compiled":
        model = torch.compile(model)
    fused = None if how == "eager" else bench.peer.cuda or None
    step = _step(torch, model, x, y, using, fused=fused)
    step = _with_precision(torch, step, using.precision)
    return step if how == "eager" else warm(step)


def _mlp(bench: Bench, batch: int, how: ExecutionMode) -> Case:
    sizes = (784, 512, 256, 10)
    data = bench.uniform(batch, sizes[0]), bench.whole(batch, below=sizes[-1])
    return training_case(bench, lambda library: perceptron(library, sizes), data, how)


@workload("mlp_step_b{}_eager_wall", full=(128,), small=(128,))
def mlp(bench: Bench, batch: int) -> Case:
    """Train a perceptron of three layers."""
    return _mlp(bench, batch, "eager")


@workload("mlp_step_b{}_cudagraph_wall", full=(128,), small=(128,))
def replayed_mlp(bench: Bench, batch: int) -> Case:
    """Replay the same step, which the peer does as a CUDA graph."""
    return _mlp(bench, batch, "cudagraph")


def _transformer(
    bench: Bench, batch: int, sizes: Sizes, how: ExecutionMode, dtype: str = "float32"
) -> Case:
    x = bench.whole(batch, sizes.length, below=sizes.words)
    y = bench.whole(batch * sizes.length, below=sizes.words)
    return training_case(
        bench, lambda library: transformer(library, sizes), (x, y), how, dtype
    )


def _sizes(
    words: int, length: int, width: int = 128, heads: int = 4, blocks: int = 2
) -> Sizes:
    return Sizes(words, length, width, heads, blocks)


def _add_transformers() -> None:
    """Add two blocks over 10,000 words, and GPT-2 small (Radford et al. 2019)."""
    hows: tuple[ExecutionMode, ...] = ("eager", "cudagraph", "compiled")
    for how in hows:

        def tiny(
            bench: Bench, batch: int, *sizes: int, how: ExecutionMode = how
        ) -> Case:
            return _transformer(bench, batch, _sizes(*sizes), how)

        small = None if how == "compiled" else (4, 256, 32)
        workload(f"tinytransformer_{how}", full=(32, 10000, 64), small=small)(tiny)
    for short, dtype, how in (
        ("f32", "float32", hows[0]),
        ("f32", "float32", hows[2]),
        ("bf16", "bfloat16", hows[0]),
        ("bf16", "bfloat16", hows[2]),
    ):

        def gpt2(
            bench: Bench,
            batch: int,
            *sizes: int,
            dtype: str = dtype,
            how: ExecutionMode = how,
        ) -> Case:
            chosen = _sizes(*sizes)._replace(tied=True)
            return _transformer(bench, batch, chosen, how, dtype)

        workload(
            f"gpt2s_{short}_{how}_b8t1024",
            full=(8, 50257, 1024, 768, 12, 12),
            dtype=dtype,
        )(gpt2)


def _add_residual_networks() -> None:
    for short, dtype in (("f32", "float32"), ("bf16", "bfloat16")):

        def resnet(
            bench: Bench,
            batch: int,
            size: int,
            classes: int,
            width: int,
            dtype: str = dtype,
        ) -> Case:
            x = bench.uniform(batch, 3, size, size, dtype=dtype)
            y = bench.whole(batch, below=classes)
            return training_case(
                bench,
                lambda library: resnet18(library, classes, width),
                (x, y),
                "eager",
                dtype,
            )

        small = (2, 32, 10, 8) if dtype == "float32" else None
        workload(
            f"resnet18_{short}_b{{}}",
            full=(64, 224, 1000, 64),
            small=small,
            dtype=dtype,
        )(resnet)


_add_transformers()
_add_residual_networks()
