"""Calls of Python functions that a warm eager call makes: its cost on the host."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base import inference
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.dispatch import batching
from vkbackend.framework.nn import functional, module_hooks

CALLS: dict[str, tuple[int, Callable[..., object]]] = {
    "abs": (3, lambda x, y, w, b: x.abs()),
    "mul": (4, lambda x, y, w, b: x * y),
    "mul, a number": (4, lambda x, y, w, b: x * 2.0),
    "where": (10, lambda x, y, w, b: fw.where(x > 0, x, y)),
    "clamp": (11, lambda x, y, w, b: x.clamp(0, 1)),
    "view": (2, lambda x, y, w, b: x.view(8, 4)),
    "transpose": (2, lambda x, y, w, b: x.transpose(0, 1)),
    "unsqueeze": (2, lambda x, y, w, b: x.unsqueeze(0)),
    "split": (2, lambda x, y, w, b: x.split(2)),
    "split, several sizes": (3, lambda x, y, w, b: x.split([1, 3])),
    "getitem": (3, lambda x, y, w, b: x[1:3]),
    "atleast_2d": (1, lambda x, y, w, b: fw.atleast_2d(x)),
    "atleast_3d": (2, lambda x, y, w, b: fw.atleast_3d(x)),
    "reshape_as": (4, lambda x, y, w, b: x.reshape_as(y)),
    "its own shape": (3, lambda x, y, w, b: x.view(x.shape)),
    "mH": (3, lambda x, y, w, b: x.mH),
    "meshgrid": (10, lambda x, y, w, b: fw.meshgrid(b, b)),
    "contiguous": (1, lambda x, y, w, b: x.contiguous()),
    "conj": (2, lambda x, y, w, b: fw.conj(x)),
    "getitem, an index": (24, lambda x, y, w, b: x[b.to(fw.int32)]),
    "einsum": (7, lambda x, y, w, b: fw.einsum("ij,jk->ik", x, w)),
    "flip": (8, lambda x, y, w, b: fw.flip(x, (0,))),
    "std": (8, lambda x, y, w, b: x.std()),
    "rfft": (9, lambda x, y, w, b: fw.fft.rfft(x)),
    "cat": (24, lambda x, y, w, b: fw.cat([x, y])),
    "sum": (10, lambda x, y, w, b: x.sum(1)),
    "cumprod": (8, lambda x, y, w, b: fw.cumprod(x, 0)),
    "topk": (14, lambda x, y, w, b: fw.topk(x, 2)),
    "softmax": (20, lambda x, y, w, b: x.softmax(-1)),
    "layer_norm": (19, lambda x, y, w, b: functional.layer_norm(x, (8,), b, b)),
    "matmul": (13, lambda x, y, w, b: x @ w),
    "linear": (15, lambda x, y, w, b: functional.linear(x, w, b)),
    "zeros": (18, lambda x, y, w, b: fw.zeros(4, 8, device=x.device)),
    "ones_like": (11, lambda x, y, w, b: fw.ones_like(x)),
    "fill_like": (8, lambda x, y, w, b: fw.ops.fill_like(x, x.shape, 1, x.dtype)),
    "norm": (8, lambda x, y, w, b: x.norm()),
    "mode": (23, lambda x, y, w, b: x.mode(1)),
    "pdist": (17, lambda x, y, w, b: functional.pdist(x)),
    "dropout": (31, lambda x, y, w, b: functional.dropout(x, 0.5)),
    "mse_loss": (12, lambda x, y, w, b: functional.mse_loss(x, y)),
    "shape": (1, lambda x, y, w, b: x.shape),
}
"""The most calls of Python functions, and what is called."""

LAYERS: dict[str, tuple[int, int, Callable[..., object]]] = {
    "conv2d": (17, 20, lambda x, v, w, m, n: functional.conv2d(x, w)),
    "batch norm": (49, 49, lambda x, v, w, m, n: n(x)),
    "linear": (15, 18, lambda x, v, w, m, n: functional.linear(v, m)),
    "matmul": (17, 20, lambda x, v, w, m, n: v @ m),
    "attention": (
        56,
        60,
        lambda x, v, w, m, n: functional.scaled_dot_product_attention(x, x, x),
    ),
}
"""The most calls of layers, without autocast and within, and what is called."""

ALONE: dict[str, tuple[int, Callable[..., fw.Tensor]]] = {
    "add": (52, lambda x, y, w, b: x + y),
    "exp": (51, lambda x, y, w, b: x.exp()),
    "sum": (58, lambda x, y, w, b: x.sum(1)),
    "softmax": (68, lambda x, y, w, b: x.softmax(-1)),
    "matmul": (61, lambda x, y, w, b: x @ w),
    "linear": (66, lambda x, y, w, b: functional.linear(x, w, b)),
    "where": (59, lambda x, y, w, b: fw.where(x > 0, x, y)),
    "add_": (82, lambda x, y, w, b: y.add_(0)),
}
"""The most calls where the result is evaluated and waited for at once.

One of them looks at the status record, where the device has one by now.
"""


IN_MEMORY: dict[str, tuple[int, Callable[..., object]]] = {
    "eval": (1, lambda x, y: fw.eval(x, y)),
    "view_as_real": (8, lambda x, y: fw.view_as_real(x)),
    "view_as_complex": (8, lambda x, y: fw.view_as_complex(y)),
    "imag": (9, lambda x, y: x.imag),
}
"""The most calls where what is in memory is evaluated, or taken for another dtype."""

ON_TAPE: dict[str, tuple[int, Callable[..., object]]] = {
    "transpose": (8, lambda x, y: y.transpose(0, 1)),
    "flatten": (6, lambda x, y: y.flatten()),
    "diagonal": (9, lambda x, y: fw.diagonal(y)),
    "getitem": (11, lambda x, y: y[1]),
    "split": (18, lambda x, y: y.split(1)),
    "view_as_real": (10, lambda x, y: fw.view_as_real(x)),
    "view_as_complex": (12, lambda x, y: fw.view_as_complex(y)),
}
"""The most calls of views of what is in memory and requires a gradient."""

READ: dict[str, tuple[int, Callable[..., object]]] = {
    "add": (61, lambda x, y, w, b: (x + 1).numpy()),
    "sum": (64, lambda x, y, w, b: x.sum().item()),
    "any": (71, lambda x, y, w, b: bool(x.any())),
    "equal": (71, lambda x, y, w, b: fw.equal(x, y)),
    "allclose": (82, lambda x, y, w, b: fw.allclose(x, y)),
    "softmax": (74, lambda x, y, w, b: x.softmax(-1).numpy()),
    "layer_norm": (76, lambda x, y, w, b: functional.layer_norm(x, (8,), b).numpy()),
    "matmul": (67, lambda x, y, w, b: (x @ w).numpy()),
    "a value in memory": (15, lambda x, y, w, b: x.numpy()),
    "nonzero": (93, lambda x, y, w, b: (x > 0).nonzero()),
    "unique": (102, lambda x, y, w, b: fw.unique(x)),
    "unique_consecutive": (84, lambda x, y, w, b: fw.unique_consecutive(x)),
}
"""The most calls where the result of one op is read at once.

The last ones begin the status record, which each read looks at from then on.
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, _no_collector: None) -> None:
    """Measure as in a program without inference mode, sparse tensors and hooks.

    The collector would call the finalizers of other tests' garbage meanwhile.
    """
    monkeypatch.setattr(inference, "used", False)
    monkeypatch.setattr(batching, "has_rules", False)
    monkeypatch.setattr(module_hooks, "used", False)


WARM = 3
"""Calls before: the first is checked, the next may record."""


def made(call: Callable[[], object]) -> int:
    """Return how many Python functions a call calls, itself not counted."""
    count = 0

    def count_call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    former = sys.getprofile()
    sys.setprofile(count_call)
    try:
        result = call()
    finally:
        sys.setprofile(former)
    del result
    return count - 1


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
def test_a_warm_call_makes_few_calls(gpu: GpuDevice) -> None:
    x, y, w = (fw.ones(*sizes, device=gpu) for sizes in ((4, 8), (4, 8), (8, 8)))
    b = fw.ones(8, device=gpu)
    fw.stack([x, y]).sum().item()  # nothing pending: none of the calls below begins
    found = {}
    for name, (most, call) in CALLS.items():
        for _ in range(WARM):
            call(x, y, w, b)
        count = made(lambda call=call: call(x, y, w, b)) - 1
        if count > most:
            found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
@pytest.mark.parametrize("within", [False, True])
def test_a_layer_makes_few_calls(within: bool, gpu: GpuDevice) -> None:
    """Autocast adds three where casts of parameters are cached."""
    dtype = fw.bfloat16 if within else fw.float32
    x = fw.ones(2, 8, 8, 8, device=gpu, dtype=dtype)
    v = fw.ones(4, 8, device=gpu, dtype=dtype)
    w = fw.ones(8, 8, 1, 1, device=gpu, requires_grad=True)
    m = fw.ones(8, 8, device=gpu, requires_grad=True)
    norm = nn.BatchNorm2d(8).to(gpu)
    fw.stack([x, x]).sum().item()  # as above
    found = {}
    with fw.autocast("gpu", dtype=fw.bfloat16, enabled=within):
        for name, (plain, cast, call) in LAYERS.items():
            most = cast if within else plain
            for _ in range(WARM):
                call(x, v, w, m, norm)
            count = made(lambda call=call: call(x, v, w, m, norm)) - 1
            if count > most:
                found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
def test_an_op_evaluated_alone_makes_few_calls(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time that memory comes again, its commands are recorded already."""
    # Wherever an index was checked before, each wait asks the record of such errors.
    monkeypatch.setattr(gpu.gpu, "status", None)
    x, y, w = (fw.ones(*sizes, device=gpu) for sizes in ((4, 8), (4, 8), (8, 8)))
    b = fw.ones(8, device=gpu)
    found = {}
    for name, (most, call) in ALONE.items():

        def evaluated(call: Callable[..., fw.Tensor] = call) -> None:
            fw.eval(call(x, y, w, b))
            gpu.synchronize()

        for _ in range(4 * WARM):
            evaluated()
        count = made(evaluated)
        if count > most:
            found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
def test_an_op_that_is_read_makes_few_calls(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu.gpu, "status", None)
    x, y, w = (fw.ones(*sizes, device=gpu) for sizes in ((4, 8), (4, 8), (8, 8)))
    b = fw.ones(8, device=gpu)
    fw.eval(x, y, w, b)
    found = {}
    for name, (most, call) in READ.items():
        for _ in range(4 * WARM):
            call(x, y, w, b)
        count = made(lambda call=call: call(x, y, w, b)) - 1
        if count > most:
            found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
def test_what_is_in_memory_takes_few_calls(gpu: GpuDevice) -> None:
    x = fw.ones(4, 8, device=gpu, dtype=fw.complex64)
    y = fw.ones(4, 8, 2, device=gpu)
    fw.eval(x, y)
    found = {}
    for name, (most, call) in IN_MEMORY.items():
        for _ in range(WARM):
            call(x, y)
        count = made(lambda call=call: call(x, y)) - 1
        if count > most:
            found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="comprehensions are no calls there"
)
def test_a_view_on_the_tape_takes_few_calls(gpu: GpuDevice) -> None:
    x = fw.ones(4, 2, device=gpu, dtype=fw.complex64).requires_grad_()
    y = fw.ones(4, 2, device=gpu).requires_grad_()
    fw.eval(x, y)
    found = {}
    for name, (most, call) in ON_TAPE.items():
        for _ in range(2 * WARM):
            call(x, y)
        count = made(lambda call=call: call(x, y)) - 1
        if count > most:
            found[name] = count, most
    assert not found, "more calls than before; see the profile of what was changed"
