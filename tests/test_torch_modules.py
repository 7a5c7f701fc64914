"""Each module of PyTorch's own table beside ours, made with the same arguments.

`module_db` has constructor and forward arguments of 114 modules, and calls that must
be refused. Compared are the names and shapes of the state, `repr`, attributes, results,
gradients, gradients of gradients on the host, and the state after the call.
"""

import functools
import sys
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore")]

NAMES = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CELU", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss",
    "ELU", "FractionalMaxPool2d", "FractionalMaxPool3d", "L1Loss", "SmoothL1Loss",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
    "LazyConvTranspose2d", "LazyConvTranspose3d", "Linear", "Bilinear", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "KLDivLoss",
    "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiMarginLoss",
    "SoftMarginLoss", "MultiLabelSoftMarginLoss", "NLLLoss", "GaussianNLLLoss",
    "PoissonNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "BCELoss",
    "BCEWithLogitsLoss", "CrossEntropyLoss", "LinearCrossEntropyLoss", "CTCLoss",
    "GELU", "GLU", "GroupNorm", "Hardshrink", "Hardswish", "Hardtanh", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LocalResponseNorm", "LayerNorm", "RMSNorm",
    "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer",
    "Transformer", "MultiheadAttention", "Embedding", "ReLU", "LeakyReLU", "ReLU6",
    "PReLU", "RNNCell", "GRUCell", "LSTMCell", "Sigmoid", "LogSigmoid", "SiLU",
    "Softmax", "Softmax2d", "LogSoftmax", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold", "Mish", "RNN", "GRU", "LSTM",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "SELU", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d",
]  # fmt: skip

ONLY_THEIRS = {
    "use_nested_tensor": "there are no nested tensors here",
    "activation_relu_or_gelu": "a note of PyTorch's own for its fast path",
}
"""Attributes that ours lack, and why."""

TOLERANCES = {
    # Sums in another order. A second derivative squares the first.
    "float64": (1e-7, 1e-9),
    # Products of a few hundred terms, and a chain of exponentials in CTCLoss.
    "float32": (2e-4, 5e-5),
}


@functools.cache
def table() -> dict[str, Any]:
    """Return PyTorch's table by the names of the classes."""
    pytest.importorskip("expecttest")
    path = [*sys.path]
    from torch.testing._internal.common_modules import module_db

    sys.path[:] = path  # a package that it imports adds a folder
    return {info.name.removeprefix("nn."): info for info in module_db}


class Twin:
    """Our counterparts of PyTorch's values: one for each of its tensors."""

    def __init__(self, place: Device) -> None:
        self.place = place
        self._made: dict[int, tuple[fw.Tensor, torch.Tensor]] = {}

    def of(self, value: Any) -> Any:
        """Return our counterpart of an argument."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.dtype):
            return getattr(fw, str(value).removeprefix("torch."))
        if isinstance(value, torch.nn.TransformerEncoderLayer):
            return encoder_layer(value).to(self.place)
        if isinstance(value, tuple | list):
            return type(value)([self.of(each) for each in value])
        if isinstance(value, dict):
            made = {name: self.of(each) for name, each in value.items()}
            return made | ({"device": self.place} if "device" in made else {})
        if callable(value) and value.__module__.startswith("torch"):
            return getattr(fw.nn.functional, value.__name__)
        return value

    def _tensor(self, value: torch.Tensor) -> fw.Tensor:
        if id(value) not in self._made:
            made = fw.tensor(value.detach().numpy(), device=self.place)
            self._made[id(value)] = made.requires_grad_(value.requires_grad), value
        return self._made[id(value)][0]


def encoder_layer(layer: torch.nn.TransformerEncoderLayer) -> Any:
    """Return our layer of the same sizes and options."""
    attention: Any = layer.self_attn
    return fw.nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        layer.linear1.out_features,
        layer.dropout.p,
        getattr(fw.nn.functional, layer.activation.__name__),
        batch_first=attention.batch_first,
        norm_first=layer.norm_first,
        bias=layer.linear1.bias is not None,
    )


def tensors(value: Any) -> list[Any]:
    """Return the tensors of a value, in order."""
    if isinstance(value, torch.Tensor | fw.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [t for e in value for t in tensors(e)]
        if isinstance(value, tuple | list)
        else []
    )


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def compare(what: str, ours: Any, theirs: Any) -> None:
    """Check a tensor of ours by PyTorch's."""
    assert (ours is None) == (theirs is None), what
    if theirs is None:
        return
    name = dtype_name(theirs)
    assert dtype_name(ours) == name, what
    assert tuple(ours.shape) == tuple(theirs.shape), what
    wanted = theirs.detach().numpy(force=True)
    relative, absolute = TOLERANCES.get(name, (0, 0))
    finite = np.abs(wanted[np.isfinite(wanted)])
    np.testing.assert_allclose(
        ours.detach().numpy(),
        wanted,
        relative,
        absolute * max(1.0, float(finite.max(initial=0.0))),
        err_msg=what,
    )


def compare_modules(ours: Any, theirs: Any) -> None:
    """Check names, attributes and text, and give ours the elements of theirs."""
    assert type(ours).__name__ == type(theirs).__name__
    assert repr(ours) == repr(theirs)
    assert list(ours._parameters) == list(theirs._parameters)
    assert list(ours._modules) == list(theirs._modules)
    for name, value in vars(theirs).items():
        if name.startswith("_") or name in ONLY_THEIRS:
            continue
        if isinstance(value, bool | int | float | str | tuple | None):
            assert getattr(ours, name) == value, name
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    keys = ours.load_state_dict(
        {n: Twin(fw.device("cpu")).of(t) for n, t in state.items()}
    )
    assert repr(keys) == "<All keys matched successfully>"


def weighted(outputs: list[Any], weights: list[np.ndarray], make: Any) -> Any:
    """Return the sum of all elements with weights, or None without a gradient."""
    terms = [
        (out * make(weight)).sum()
        for out, weight in zip(outputs, weights)
        if out.requires_grad
    ]
    return sum(terms[1:], terms[0]) if terms else None


def compare_gradients(
    twin: Twin,
    ours: list[Any],
    theirs: list[Any],
    leaves: tuple[list[Any], list[Any]],
    twice: bool,
) -> None:
    """Check gradients of results, and of the sum of their squares."""
    mine, its = leaves
    draws = np.random.default_rng(0)
    weights = [
        draws.standard_normal(tuple(each.shape)).astype(dtype_name(each))
        for each in theirs
        if each.requires_grad
    ]
    theirs = [each for each in theirs if each.requires_grad]
    wanted = weighted(theirs, weights, torch.from_numpy)
    found = weighted(ours, weights, functools.partial(fw.tensor, device=twin.place))
    if wanted is None or not its:
        return
    options: dict[str, Any] = {"create_graph": twice, "allow_unused": True}
    first = torch.autograd.grad(wanted, its, **options)
    first_ours = fw.autograd.grad(found, mine, **options)
    for number, (a, b) in enumerate(zip(first_ours, first)):
        compare(f"gradient {number}", a, b)
    squares = [
        (each * each).sum() for each in first if each is not None and each.requires_grad
    ]
    if not twice or not squares:
        return
    squares_ours = [
        (each * each).sum()
        for each in first_ours
        if each is not None and each.requires_grad
    ]
    try:
        total = sum(squares[1:], squares[0])
        second = torch.autograd.grad(total, its, allow_unused=True)
    except RuntimeError:
        return  # PyTorch has none for a few losses, and for attention on the host
    second_ours: Any = [None] * len(mine)
    if squares_ours:
        total = sum(squares_ours[1:], squares_ours[0])
        second_ours = fw.autograd.grad(total, mine, allow_unused=True)
    # Where all of a gradient is 0, one of the two may have no graph.
    for number, (a, b, leaf) in enumerate(zip(second_ours, second, its)):
        zeros = torch.zeros_like(leaf)
        a = Twin(twin.place).of(zeros) if a is None else a
        compare(f"second gradient {number}", a, zeros if b is None else b)


def check(info: Any, case: Any, training: bool, twin: Twin, dtype: torch.dtype) -> None:
    """Check one row of the table."""
    made, call = case.constructor_input, case.forward_input
    twice = info.supports_gradgrad and dtype is torch.float64
    theirs = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    kind = getattr(fw.nn, info.module_cls.__name__)
    ours = kind(*twin.of(made.args), **twin.of(made.kwargs))
    ours = ours.to(twin.place).to(twin.of(dtype)).train(training)
    args, kwargs = twin.of(call.args), twin.of(call.kwargs)
    if info.is_lazy:
        assert repr(ours) == repr(theirs)
        with torch.no_grad(), fw.no_grad():
            theirs(*call.args, **call.kwargs)
            ours(*args, **kwargs)
    compare_modules(ours, theirs)
    out, out_ours = theirs(*call.args, **call.kwargs), ours(*args, **kwargs)
    results, results_ours = tensors(out), tensors(out_ours)
    assert len(results_ours) == len(results)
    for number, (a, b) in enumerate(zip(results_ours, results)):
        compare(f"result {number}", a, b)
        assert a.requires_grad == b.requires_grad
    leaves = [
        [
            each
            for each in tensors((*given, list(module.parameters())))
            if each.requires_grad
        ]
        for given, module in (
            ((args, kwargs), ours),
            ((call.args, call.kwargs), theirs),
        )
    ]
    compare_gradients(twin, results_ours, results, (leaves[0], leaves[1]), twice)
    for name, value in theirs.state_dict().items():
        compare(f"{name} after the call", ours.state_dict()[name], value)


def cases(info: Any, training: bool, dtype: torch.dtype) -> list[Any]:
    """Return the rows of the table for a module."""
    made = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training
    )
    return list(made)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_on_the_host(name: str, training: bool) -> None:
    info = table()[name]
    for case in cases(info, training, torch.float64):
        torch.manual_seed(0)
        check(info, case, training, Twin(fw.device("cpu")), torch.float64)


@pytest.mark.device
@pytest.mark.parametrize("name", NAMES)
def test_on_a_device(name: str, gpu: GpuDevice) -> None:
    """A few rows of each module."""
    info = table()[name]
    found = cases(info, True, torch.float32)
    for case in found[:: max(1, len(found) // 4)]:
        torch.manual_seed(0)
        check(info, case, True, Twin(gpu), torch.float32)


def test_what_is_refused() -> None:
    twin = Twin(fw.device("cpu"))
    taken = []
    for name, info in table().items():
        found = info.module_error_inputs_func or (lambda *_, **__: ())
        rows = found(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=True
        )
        for number, row in enumerate(rows):
            made, call = (
                row.module_error_input.constructor_input,
                row.module_error_input.forward_input,
            )
            try:
                layer = getattr(fw.nn, name)(
                    *twin.of(made.args), **twin.of(made.kwargs)
                )
                if call is not None:
                    layer(*twin.of(call.args), **twin.of(call.kwargs))
                taken.append((name, number))
            except row.error_type:
                pass
    assert taken == []


def test_the_table_has_no_others() -> None:
    assert sorted(table()) == sorted(NAMES)
