"""The dtype that each operation computes in within `autocast`, against PyTorch.

PyTorch's rules are those for CUDA, asked of tensors without elements that claim to be
there; where it needs a real device for an answer, its rules for the host are asked.
"""

import contextlib
import warnings
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import vkbackend.framework as fw
from tests.autocast_calls import CALLS
from vkbackend.framework.base import modes
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.dispatch.autocast_policy import (
    autocast_arguments,
    autocast_low_precision,
    autocast_promote,
)

Row = Callable[[Any, Any, Any, Any], Any]
"""From a library, its `nn.functional` and two matrices to a tensor."""

OPERATORS: dict[str, Row] = {
    "a @ b": lambda lib, nn, a, b: a @ b,
    "a + b": lambda lib, nn, a, b: a + b,
    "a * b": lambda lib, nn, a, b: a * b,
    "a / b": lambda lib, nn, a, b: a / b,
    "a + 1.5": lambda lib, nn, a, b: a + 1.5,
    "a ** 2": lambda lib, nn, a, b: a**2,
    "2 ** a": lambda lib, nn, a, b: 2**a,
    "1 / a": lambda lib, nn, a, b: 1 / a,
}


def named(
    names: str, operands: int, *more: Any, layers: bool = False
) -> dict[str, Row]:
    """Return rows that call functions with one matrix or two, and what follows."""

    def row(name: str) -> Row:
        def call(lib: Any, nn: Any, a: Any, b: Any) -> Any:
            return getattr(nn if layers else lib, name)(*(a, b)[:operands], *more)

        return call

    return {name: row(name) for name in names.split()}


ONE = named(
    "neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin"
    " cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc floor round frac"
    " sigmoid relu isnan isfinite sum mean prod max var std count_nonzero norm median"
    " nansum nanmean diff trace nan_to_num tril t",
    1,
)
ONE |= named("logsumexp amax cumsum cumprod softmax log_softmax argsort", 1, 1)
ONE |= named(
    "relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardswish"
    " hardsigmoid hardtanh logsigmoid glu dropout normalize",
    1,
    layers=True,
)
TWO = named("matmul mm pow atan2 maximum hypot logaddexp fmod", 2)
TWO |= named(
    "cosine_similarity mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy"
    " binary_cross_entropy_with_logits hinge_embedding_loss",
    2,
    layers=True,
)
MORE: dict[str, Row] = {
    # Its default reduction warns, in both libraries.
    "kl_div": lambda lib, nn, a, b: nn.kl_div(a, b, reduction="batchmean"),
    "addmm": lambda lib, nn, a, b: lib.addmm(a, a, b),
    "einsum": lambda lib, nn, a, b: lib.einsum("ij,jk->ik", a, b),
    "einsum of one": lambda lib, nn, a, b: lib.einsum("ij->i", a),
    "tensordot": lambda lib, nn, a, b: lib.tensordot(a, b, 1),
    "sum(dtype)": lambda lib, nn, a, b: lib.sum(a, dtype=lib.float16),
    "softmax(dtype)": lambda lib, nn, a, b: lib.softmax(a, -1, dtype=lib.float16),
    "where": lambda lib, nn, a, b: lib.where(a > 0, a, b),
    "cat": lambda lib, nn, a, b: lib.cat([a, b]),
    "stack": lambda lib, nn, a, b: lib.stack([a, b]),
    "addcmul": lambda lib, nn, a, b: lib.addcmul(a, a, b),
    "addcdiv": lambda lib, nn, a, b: lib.addcdiv(a, a, b),
    "lerp": lambda lib, nn, a, b: lib.lerp(a, a, 0.5),
    "margin": lambda lib, nn, a, b: nn.margin_ranking_loss(a, a, b),
    "nll_loss": lambda lib, nn, a, b: nn.nll_loss(a, places(lib, a, 4)),
    "cross_entropy of classes": lambda lib, nn, a, b: nn.cross_entropy(
        a, places(lib, a, 4)
    ),
    "embedding": lambda lib, nn, a, b: nn.embedding(places(lib, a, 4), a),
    "pad": lambda lib, nn, a, b: nn.pad(a, (1, 1)),
    "scatter_add": lambda lib, nn, a, b: lib.scatter_add(a, 0, places(lib, a, 4, 4), b),
    "masked_fill": lambda lib, nn, a, b: lib.masked_fill(a, a > 0, 0.5),
}
FREE = OPERATORS | ONE | TWO | MORE

# Those that PyTorch answers for with a real device only; its rules for the host agree.
ON_HOST: dict[str, Row] = {
    "bmm": lambda lib, nn, a, b: lib.bmm(a[None], b[None]),
    "baddbmm": lambda lib, nn, a, b: lib.baddbmm(a[None], a[None], b[None]),
    "linear": lambda lib, nn, a, b: nn.linear(a, b, b[0]),
    "conv1d": lambda lib, nn, a, b: nn.conv1d(a[None], b[:, :, None]),
    "conv2d": lambda lib, nn, a, b: nn.conv2d(a[None, None], b[None, None]),
    "conv_transpose1d": lambda lib, nn, a, b: nn.conv_transpose1d(
        a[None], b[:, :, None]
    ),
    "conv_transpose2d": lambda lib, nn, a, b: nn.conv_transpose2d(
        a[None, None], b[None, None]
    ),
    "attention": lambda lib, nn, a, b: nn.scaled_dot_product_attention(
        a[None], b[None], b[None]
    ),
    "binary_cross_entropy": lambda lib, nn, a, b: nn.binary_cross_entropy(a, b),
}

# Those for which its rules for the host are others; so by the lists for CUDA.
LOW: dict[str, Row] = {
    "mv": lambda lib, nn, a, b: lib.mv(a, b[0]),
    "prelu": lambda lib, nn, a, b: nn.prelu(a, b[0, :1]),
}
SINGLE: dict[str, Row] = {
    "layer_norm": lambda lib, nn, a, b: nn.layer_norm(a, (4,), b[0], b[0]),
    "rms_norm": lambda lib, nn, a, b: nn.rms_norm(a, (4,), b[0]),
    "group_norm": lambda lib, nn, a, b: nn.group_norm(a[None], 2, b[0], b[0]),
    "nearest": lambda lib, nn, a, b: nn.interpolate(a[None], 8),
    "bilinear": lambda lib, nn, a, b: nn.interpolate(a[None, None], 8, mode="bilinear"),
}

# On neither list: as `a` comes, whatever the weights are.
LIKE_A: dict[str, Row] = {
    "batch_norm": lambda lib, nn, a, b: nn.batch_norm(a, b[0], b[0], b[0], b[0]),
    "batch_norm(training)": lambda lib, nn, a, b: nn.batch_norm(
        a, None, None, b[0], b[0], training=True
    ),
    "instance_norm": lambda lib, nn, a, b: nn.instance_norm(a[None]),
    "max_pool1d": lambda lib, nn, a, b: nn.max_pool1d(a[None], 2),
    "avg_pool2d": lambda lib, nn, a, b: nn.avg_pool2d(a[None], 2),
    "adaptive_avg_pool2d": lambda lib, nn, a, b: nn.adaptive_avg_pool2d(a[None], 2),
}

PAIRS = [
    ("float32", "float32"),
    ("float16", "float16"),
    ("float32", "float16"),
    ("float16", "float32"),
    ("float64", "float64"),
]


def places(lib: Any, like: Any, *shape: int) -> Any:
    return lib.zeros(shape, dtype=lib.int64, device=like.device)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


@contextmanager
def pretended() -> Any:
    """Switch PyTorch's autocast for CUDA on, which it would not do without one."""
    torch.set_autocast_dtype("cuda", torch.float16)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@cache
def theirs(name: str, pair: tuple[str, str]) -> str:
    """Return the dtype of PyTorch's result within autocast to float16."""
    host = name in ON_HOST
    row = ON_HOST[name] if host else FREE[name]
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if not host:
            stack.enter_context(FakeTensorMode())
        a, b = (
            torch.ones(4, 4, dtype=getattr(torch, dtype), device="cpu")
            if host
            else torch.empty(4, 4, dtype=getattr(torch, dtype), device="cuda")
            for dtype in pair
        )
        stack.enter_context(
            torch.autocast("cpu", torch.float16) if host else pretended()
        )
        result = first(row(torch, torch.nn.functional, a, b))
    return str(result.dtype).removeprefix("torch.")


def ours(row: Row, pair: tuple[str, str], place: Device) -> str:
    """Return the dtype of our result within autocast to float16."""
    a, b = (fw.ones((4, 4), dtype=dtype, device=place) for dtype in pair)
    with fw.autocast(fw.float16):
        result = first(row(fw, fw.nn.functional, a, b))
    return result.dtype.name


def in_block_for_host(row: Row, lib: Any, pair: tuple[str, str], low: str) -> Any:
    """Return the dtypes of results in a block for "cpu"; None where PyTorch raises."""
    first, second = (getattr(lib, dtype) for dtype in pair)
    a = lib.ones((4, 4), dtype=first)
    b = (lib.eye(4) * 2 + 0.25).to(second)
    with warnings.catch_warnings(), lib.autocast("cpu", getattr(lib, low)):
        warnings.simplefilter("ignore")
        try:
            found = row(lib, lib.nn.functional, a, b)
        except (RuntimeError, ValueError):
            if lib is torch:
                return None
            raise
    parts = found if isinstance(found, tuple) else (found,)
    return [str(each.dtype).removeprefix("torch.") for each in parts]


LISTED = {**FREE, **ON_HOST, **LOW, **SINGLE, **LIKE_A, **CALLS}


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LISTED)
def test_a_block_for_the_host_has_its_lists(name: str, low: str) -> None:
    for pair in (("float32", "float32"), (low, low)):
        wanted = in_block_for_host(LISTED[name], torch, pair, low)
        if wanted is not None:
            assert in_block_for_host(LISTED[name], fw, pair, low) == wanted, pair


def test_a_block_for_the_host_is_for_tensors_on_a_device(gpu: GpuDevice) -> None:
    x = fw.ones((2, 2), device=gpu)
    with fw.autocast("cpu", fw.float16):
        low = x @ x
        assert (low.dtype, low.softmax(-1).dtype) == (fw.float16, fw.float16)
        with fw.autocast("gpu"):
            assert low.softmax(-1).dtype is fw.float32
        assert low.exp().dtype is fw.float16


def test_traces_know_whose_lists_they_have(gpu: GpuDevice) -> None:
    function = fw.jit(lambda x: (x @ x).softmax(-1))
    x = fw.ones((2, 2), device=gpu)
    for _ in range(2):
        with fw.autocast("cpu", fw.float16):
            assert function(x).dtype is fw.float16
        with fw.autocast("gpu", fw.float16):
            assert function(x).dtype is fw.float32


@pytest.fixture(
    params=["cpu", pytest.param("gpu", marks=[pytest.mark.device, pytest.mark.wide])]
)
def policy_place(request: pytest.FixtureRequest) -> Device:
    """Return the host, on which dtypes are chosen as on a device, then a device."""
    if request.param == "cpu":
        return fw.device("cpu")
    found: Device = request.getfixturevalue("gpu")
    return found


@pytest.mark.parametrize("name", [*FREE, *ON_HOST])
def test_dtypes_are_pytorch_s(name: str, half_place: Device) -> None:
    row = ON_HOST.get(name) or FREE[name]
    pairs = [pair for pair in PAIRS if not (half_place.is_gpu and "float64" in pair)]
    wanted = {pair: theirs(name, pair) for pair in pairs}
    if isinstance(half_place, GpuDevice) and not half_place.gpu.info.shader_int64:
        wanted = {pair: name.replace("int64", "int32") for pair, name in wanted.items()}
    assert {pair: ours(row, pair, half_place) for pair in pairs} == wanted


@pytest.mark.parametrize("name", [*LOW, *SINGLE])
@pytest.mark.parametrize("pair", PAIRS[:4])
def test_what_is_on_a_list(
    name: str, pair: tuple[str, str], policy_place: Device
) -> None:
    wanted = "float16" if name in LOW else "float32"
    assert ours(LOW.get(name) or SINGLE[name], pair, policy_place) == wanted


@pytest.mark.parametrize("name", LIKE_A)
@pytest.mark.parametrize("pair", PAIRS[:4])
def test_what_stays(name: str, pair: tuple[str, str], policy_place: Device) -> None:
    assert ours(LIKE_A[name], pair, policy_place) == pair[0]


def test_bfloat16_and_float16_meet_in_float32() -> None:
    a, b = fw.ones(3, dtype="float16"), fw.ones(3, dtype="bfloat16")
    with fw.autocast(fw.bfloat16):
        assert fw.dot(a, b).dtype is fw.float32
        assert (a @ b).dtype is fw.bfloat16


def test_keywords_are_converted_and_numbers_are_not() -> None:
    x, weight = fw.ones((2, 2), dtype="float16"), fw.ones((2, 2), dtype="int32")
    policy = fw.ops.exp.policy
    assert policy is not None
    with fw.autocast():
        args, kwargs = autocast_arguments(policy, (x, 3), {"weight": weight, "bias": x})
    assert (args[0].dtype, args[1]) == (fw.float32, 3)
    assert kwargs["weight"] is weight
    assert kwargs["bias"].dtype is fw.float32


def test_what_a_function_is_made_of_is_not_converted() -> None:
    @autocast_promote
    def product(a: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
        """Return a product."""
        return a @ b

    x = fw.ones((2, 2))
    with fw.autocast():
        assert product(x, x.half()).dtype is fw.float32
        assert (x @ x).dtype is fw.float16
    assert product.__doc__ == "Return a product."


@pytest.mark.parametrize("name", [*FREE, *ON_HOST, *LOW, *SINGLE, *LIKE_A])
def test_gradients_have_the_dtypes_of_the_tensors(
    name: str, policy_place: Device
) -> None:
    row = next(
        rows[name] for rows in (FREE, ON_HOST, LOW, SINGLE, LIKE_A) if name in rows
    )
    a, b = (
        fw.ones((4, 4), dtype=dtype, device=policy_place, requires_grad=True)
        for dtype in ("float32", "float16")
    )
    with fw.autocast(fw.bfloat16):
        result = first(row(fw, fw.nn.functional, a, b))
    if result.requires_grad:
        result.sum().backward()
        fw.eval()
    for x in (a, b):
        assert x.grad is None or x.grad.dtype is x.dtype


def test_a_call_leaves_the_block_as_it_was() -> None:
    """Also where it fails, or enters a block that it does not leave."""
    left = []

    @autocast_low_precision
    def function(x: fw.Tensor, how: str) -> fw.Tensor:
        assert not fw.is_autocast_enabled()
        if how == "fails":
            raise ValueError(how)
        if how == "enters":
            left.append(fw.autocast("cpu", dtype=fw.float16))
            left[-1].__enter__()
        return x

    x = fw.ones(3)
    with fw.autocast("cpu", dtype=fw.bfloat16):
        for how in ("returns", "fails", "enters"):
            before = modes.autocast_state.top
            with contextlib.suppress(ValueError):
                assert function(x, how).dtype is fw.bfloat16
            if how == "enters":
                assert modes.autocast_state.top.value.dtype is fw.float16
                left.pop().__exit__()
            assert modes.autocast_state.top is before
    assert not fw.is_autocast_enabled()
