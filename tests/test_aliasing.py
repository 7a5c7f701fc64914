"""Copies are copies and views are views; `tests.aliasing` tries more of each call."""

import re
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests import alias_calls, aliasing
from tests.alias_calls import CALLS, Call
from tests.aliasing import Namespace, Ours, Theirs, Try, called, compare, tries
from tests.cases import CASES
from vkbackend.framework import nn, ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.dispatch.movement import Movement
from vkbackend.framework.dispatch.op import REGISTRY

# What makes tensors of numbers alone, and what answers with none.
NO_OPERAND = {
    "draw_exponential", "draw_integers", "draw_normal", "draw_permutation",
    "draw_uniform", "normal", "random_uniform", "bernoulli", "multinomial",
    "allclose", "equal", "result_type", "ValuesIndices", "GRID_SAMPLE_PADDING_MODES",
    "GRID_SAMPLE_INTERPOLATION_MODES", "broadcast_shapes", "is_same_size", "draw_gamma",
    "poisson", "binomial",
}  # fmt: skip
# By other names, or with other arguments, than PyTorch's.
OTHERWISE = {"fold", "logsigmoid", "slice_", "rope", "swiglu"}
# Those whose elements are computed, and changes in place.
COMPUTED = {
    "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    "complex", "conj", "imag", "istft", "polar", "stft", "view_as_complex",
    "view_as_real",
    "fill", "chain_matmul", "sum_to_size", "as_strided_scatter", "index_reduce",
    "binary_cross_entropy_with_logits", "hinge_embedding_loss", "margin_ranking_loss",
    "conv_transpose1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "addbmm", "addmv",
    "addr", "affine_grid", "aminmax", "angle", "argwhere", "bilinear", "cdist",
    "celu_", "combinations", "conv3d", "conv_tbc", "conv_transpose3d", "corrcoef",
    "cosine_embedding_loss", "cov", "cross", "ctc_loss", "deg2rad", "dist", "elu_",
    "embedding_bag", "float_power", "fmax", "fmin", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "frexp", "gaussian_nll_loss", "gradient",
    "grouped_mm",
    "grid_sample", "gumbel_softmax", "hardshrink", "hardtanh_", "heaviside",
    "histogram", "inner", "isin", "isneginf", "isposinf", "isreal", "kron", "lcm",
    "ldexp", "leaky_relu_", "linear_cross_entropy", "local_response_norm",
    "logaddexp2", "logit", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d_with_indices", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "mode", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "mvlgamma", "nanmedian", "nanquantile", "nextafter", "pairwise_distance", "pdist",
    "poisson_nll_loss", "polygamma", "quantile", "rad2deg", "relu_", "rrelu_",
    "rsub", "selu_", "signbit", "sinc", "soft_margin_loss", "softmin", "softshrink",
    "tanhshrink", "threshold_", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unravel_index", "upsample",
    "upsample_bilinear", "upsample_nearest", "vecdot",
}  # fmt: skip


def sample(name: str) -> list[Try]:
    """Return few ways to try a row: of the first and the last shapes."""
    first, *_, last = (CALLS[name].shapes[0], *CALLS[name].shapes)
    return [
        Try(name, first, "float32", "plain", True),
        Try(name, last, "int32", "part", False),
    ]


def taken(name: str, device: Device) -> int:
    """Compare a few calls of a row; return how many both libraries take."""
    ours, theirs = Namespace(Ours(device)), Namespace(Theirs())
    return sum(compare(each, ours, theirs) for each in sample(name))


@pytest.mark.parametrize("name", CALLS)
def test_sharing_is_that_of_pytorch(name: str) -> None:
    assert taken(name, fw.device("cpu"))


def shares(name: str) -> bool:
    """Return whether a result shares memory with an operand, as the host decides."""
    library = Namespace(Ours(fw.device("cpu")))
    for each in tries(name):
        try:
            bases, results = called(library, each)
        except (TypeError, ValueError):
            continue
        held = [result.array for result in results if isinstance(result, fw.Tensor)]
        return any(base.array is array for base in bases for array in held)
    return False


@pytest.mark.parametrize(
    "name",
    [
        # Storages are made before a device is asked; the rest have memory of their own.
        pytest.param(name, marks=[] if shares(name) else [pytest.mark.wide])
        for name in CALLS
    ],
)
def test_sharing_is_that_of_pytorch_on_the_device(name: str, gpu: Device) -> None:
    assert taken(name, gpu)


def test_only_views_share() -> None:
    for name, case in CASES.items():
        given = case.samples[0]
        x = [fw.ones(each.shape, each.dtype or "float32") for each in given.draws]
        try:
            out = case.call(*x, **given.keywords)
        except DTypeError:
            continue
        results = out if isinstance(out, tuple) else (out,)
        op = REGISTRY[name]
        shares = any(
            isinstance(each, fw.Tensor) and each.array is operand.array
            for each in results
            for operand in x
        )
        assert shares <= (isinstance(op, Movement) and op.shares), name


def test_every_function_is_called() -> None:
    text = Path(alias_calls.__file__).read_text()
    called = {*re.findall(r"\bt\.(\w+)", text), *re.findall(r"\bx\.(\w+)", text)}
    names = {*ops.NAMES, *nn.functional.__all__}
    assert names - called - set(CASES) - NO_OPERAND - OTHERWISE - COMPUTED == set()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, x: x if isinstance(x, fw.Tensor) else x.clone(),
        lambda t, x: x.clone() if isinstance(x, fw.Tensor) else x,
        lambda t, x: x.expand(2, 3) if isinstance(x, fw.Tensor) else x.repeat(2, 1),
        lambda t, x: (x.clone(),) * 2 if isinstance(x, fw.Tensor) else (x + 0, x + 0),
        lambda t, x: x.detach() + 0 if isinstance(x, fw.Tensor) else x + 0,
    ],
)
def test_what_is_wrong_is_found(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aliasing.CALLS, "wrong", Call(wrong, (((3,),),)))
    with pytest.raises(AssertionError):
        taken("wrong", fw.device("cpu"))
