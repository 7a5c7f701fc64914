"""Layers and their functions take what PyTorch's take: names, order and defaults."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn

# What differs on purpose, and why.
DIFFERENT = {
    # Is given a group of processes.
    "DataParallel",
    # PyTorch's warns that it is obsolete, and is a `Module`.
    "Container",
}
FORWARD_DIFFERS = {
    # Bases and containers have none, whatever they are given.
    "Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
    "RNNBase", "RNNCellBase",
    # Takes a query alone, too.
    "MultiheadAttention",
}  # fmt: skip
LAYERS = [
    name
    for name, theirs in sorted(vars(torch.nn).items())
    if isinstance(theirs, type)
    and issubclass(theirs, torch.nn.Module)
    and name not in DIFFERENT
]
FUNCTIONS = [
    name for name in nn.functional.__all__ if callable(getattr(nn.functional, name))
]


def parameters(function: Callable[..., Any]) -> list[tuple[str, str, Any]]:
    """Return name, kind and default of each parameter; of functions, their names."""
    return [
        (each.name, each.kind.name, getattr(each.default, "__name__", each.default))
        for each in inspect.signature(function).parameters.values()
    ]


OWN = {"linear_cross_entropy": ["chunk"]}
"""Keywords of functions that PyTorch's have not."""


@pytest.mark.torch213
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    assert parameters(ours) == parameters(theirs)
    if name not in FORWARD_DIFFERS:
        assert parameters(ours.forward) == parameters(theirs.forward)
    elif name == "MultiheadAttention":
        names = [next(zip(*parameters(each.forward))) for each in (ours, theirs)]
        assert names[0] == names[1]


def documented(name: str) -> dict[str, str] | None:
    """Return parameters and defaults as PyTorch's documentation has them."""
    text = getattr(torch.nn.functional, name).__doc__ or ""
    found = re.match(rf"\s*{name}\((.*?)\)", text, re.DOTALL)
    if found is None:
        return None
    pairs = (each.partition("=") for each in found[1].split(","))
    return {key.strip(): default.strip() for key, _, default in pairs}


@pytest.mark.torch213
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    ours = getattr(nn.functional, name)
    if name in ("rope", "swiglu"):
        return
    found = {each: default for each, _, default in parameters(ours)}
    for own in OWN.get(name, ()):
        del found[own]
    try:
        expected = parameters(getattr(torch.nn.functional, name))
    except ValueError:
        expected = []
    if expected and expected[0][0] != "args":
        assert found == {each: default for each, _, default in expected}
        return
    words = documented(name)
    if words is not None:
        assert list(found) == [each for each in words if each != "*"]
        for each, default in words.items():
            if default:
                assert found[each] == eval(default), each


@pytest.mark.parametrize(
    "name", [each for each in dir(nn.init) if hasattr(torch.nn.init, each)]
)
def test_initial_values(name: str) -> None:
    ours, theirs = getattr(nn.init, name), getattr(torch.nn.init, name)
    if not name.endswith("_") or name.startswith("_") or not callable(ours):
        return
    assert parameters(ours) == parameters(theirs)


def test_parameters_are_made_where_they_are_wanted(gpu: Any) -> None:
    for layer in (
        nn.Linear(2, 3, device=gpu, dtype=fw.float16),
        nn.Conv3d(2, 4, 3, device=gpu, dtype=fw.float16),
        nn.Embedding(3, 2, device=gpu, dtype=fw.float16),
        nn.BatchNorm2d(3, device=gpu, dtype=fw.float16),
        nn.LayerNorm(3, device=gpu, dtype=fw.float16),
        nn.Bilinear(2, 3, 4, device=gpu, dtype=fw.float16),
        nn.PReLU(device=gpu, dtype=fw.float16),
    ):
        for parameter in layer.parameters():
            assert (parameter.device, parameter.dtype) == (gpu, fw.float16)


MADE: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("ReLU", (True,), {}),
    ("ReLU6", (), {}),
    ("LeakyReLU", (0.2, True), {}),
    ("RReLU", (), {"inplace": True}),
    ("Threshold", (0.1, 20), {}),
    ("Hardtanh", (-2, 2), {}),
    ("Hardswish", (True,), {}),
    ("Hardsigmoid", (), {}),
    ("SELU", (True,), {}),
    ("CELU", (), {}),
    ("SiLU", (), {}),
    ("Mish", (True,), {}),
    ("Hardshrink", (0.25,), {}),
    ("Softshrink", (), {}),
    ("Tanhshrink", (), {}),
    ("Softmin", (1,), {}),
    ("Softmax", (), {}),
    ("Softmax2d", (), {}),
    ("PReLU", (3,), {}),
    ("Conv1d", (2, 4, 3), {"padding": "same", "padding_mode": "circular"}),
    ("Conv2d", (2, 4, (3, 1)), {"stride": 2, "padding": (1, 0), "bias": False}),
    ("Conv3d", (2, 4, 3), {"dilation": 2, "groups": 2}),
    ("ConvTranspose3d", (2, 4, 3), {"stride": 2, "output_padding": 1}),
    ("Linear", (3, 2), {}),
    ("Bilinear", (3, 2, 4), {}),
    ("Identity", (54,), {"unused": 1}),
    ("Embedding", (5, 3, -1), {"max_norm": 1.0, "sparse": True}),
    ("EmbeddingBag", (5, 3), {"mode": "sum", "padding_idx": 1}),
    ("Dropout", (0.2,), {"inplace": True}),
    ("AlphaDropout", (), {}),
    ("FeatureAlphaDropout", (), {}),
    ("BatchNorm1d", (3,), {"affine": False}),
    ("BatchNorm3d", (3,), {"momentum": None, "bias": False}),
    ("SyncBatchNorm", (3,), {}),
    ("InstanceNorm3d", (3,), {"affine": True, "track_running_stats": True}),
    ("LayerNorm", ([3, 2],), {"bias": False}),
    ("RMSNorm", (3,), {}),
    ("GroupNorm", (1, 3), {"bias": False}),
    ("LocalResponseNorm", (2,), {}),
    ("CrossMapLRN2d", (2,), {}),
    ("MaxPool1d", (2,), {"return_indices": True}),
    ("MaxPool3d", ((1, 2, 3),), {"ceil_mode": True}),
    ("MaxUnpool2d", (2,), {}),
    ("AvgPool1d", (2,), {}),
    ("AvgPool3d", (2, 1), {}),
    ("LPPool2d", (2, 3), {}),
    ("LPPool3d", (1.5, 2), {"ceil_mode": True}),
    ("FractionalMaxPool2d", (2,), {"output_size": 3}),
    ("FractionalMaxPool3d", (2,), {"output_ratio": 0.5}),
    ("AdaptiveAvgPool3d", ((1, None, 2),), {}),
    ("AdaptiveMaxPool1d", (2,), {}),
    ("ConstantPad3d", (1, 2.5), {}),
    ("ZeroPad3d", ((1, 2, 0, 0, 1, 1),), {}),
    ("ReflectionPad3d", (1,), {}),
    ("ReplicationPad3d", (1,), {}),
    ("CircularPad2d", (1,), {}),
    ("Upsample", (), {"scale_factor": (2, 3), "mode": "bilinear"}),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}),
    ("UpsamplingBilinear2d", ((2, 3),), {}),
    ("PixelShuffle", (2,), {}),
    ("PixelUnshuffle", (2,), {}),
    ("ChannelShuffle", (2,), {}),
    ("Flatten", (), {}),
    ("Unflatten", (1, (2, 3)), {}),
    ("Fold", ((4, 5), 2), {}),
    ("CosineSimilarity", (), {}),
    ("PairwiseDistance", (1.0,), {}),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10]), {"div_value": 2.0}),
    ("CTCLoss", (), {"zero_infinity": True}),
    ("TripletMarginLoss", (), {}),
    ("MultiMarginLoss", (), {}),
]


@pytest.mark.torch213
@pytest.mark.parametrize(("name", "args", "options"), MADE)
def test_text_and_state(name: str, args: Any, options: dict[str, Any]) -> None:
    ours, theirs = (getattr(lib, name)(*args, **options) for lib in (nn, torch.nn))
    assert repr(ours) == repr(theirs)
    states = ours.state_dict(), theirs.state_dict()
    found, expected = (
        [(key, tuple(each.shape), str(each.dtype).rpartition(".")[2])
         for key, each in state.items()]
        for state in states
    )  # fmt: skip
    assert found == expected
