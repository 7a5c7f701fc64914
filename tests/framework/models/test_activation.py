"""Activations by name beside transformers."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import torch
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.activation import (
    ACTIVATIONS,
    activation_name,
    gated_product,
)
from vkbackend.framework.models.config import ModelConfig


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_agrees_with_transformers(name: str) -> None:
    activations = pytest.importorskip("transformers.activations")
    x = np.linspace(-4, 4, 41, dtype=np.float32)
    wanted = activations.ACT2FN[name](torch.from_numpy(x)).numpy()
    found = ACTIVATIONS[name](fw.tensor(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_names() -> None:
    assert activation_name(ModelConfig({}), "act", "relu") == "relu"
    assert activation_name(ModelConfig({"act": "silu"}), "act", "relu") == "silu"
    with pytest.raises(FileFormatError, match="`act` is 'swish2'; accepted: 'gelu'"):
        activation_name(ModelConfig({"act": "swish2"}), "act", "relu")


def quantized_layers(bias: bool = False) -> list[nn.QLinear]:
    fw.manual_seed(0)
    return [
        nn.QLinear.from_linear(nn.Linear(64, 12, bias=bias), "q8_0") for _ in range(2)
    ]


@pytest.mark.parametrize("activation", ["silu", "gelu_pytorch_tanh"])
def test_gated_product_is_one_kernel(activation: str, gpu: GpuDevice) -> None:
    gate, up = (layer.to(gpu) for layer in quantized_layers())
    x = fw.tensor(np.linspace(-1, 1, 64, dtype=np.float32)[None], device=gpu)
    want = ACTIVATIONS[activation](gate(x)) * up(x)
    fw.eval(x, want)
    with gpu.gpu.profile() as profile:
        found = gated_product(x, gate, up, activation).numpy()
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-5, atol=1e-6)
    assert [span.name.split(" ")[0] for span in profile.spans] == ["quantized/gemv"]


def test_gated_product_of_layers_that_are_called(place: Device) -> None:
    """Hooks, biases, other activations and gradients take the layers themselves."""
    x = fw.tensor(np.linspace(-1, 1, 64, dtype=np.float32)[None], device=place)
    gate, up = (layer.to(place) for layer in quantized_layers())
    seen: list[nn.Module] = []
    handle = up.register_forward_hook(lambda module, *_: seen.append(module))
    gated_product(x, gate, up, "silu")
    handle.remove()
    assert seen == [up]
    with_bias = [layer.to(place) for layer in quantized_layers(bias=True)]
    for layers, activation in ((with_bias, "silu"), ((gate, up), "relu")):
        want = ACTIVATIONS[activation](layers[0](x)) * layers[1](x)
        found = gated_product(x, *layers, activation)
        np.testing.assert_array_equal(found.detach().numpy(), want.detach().numpy())
    given = x.clone().requires_grad_()
    gated_product(given, gate, up, "silu").sum().backward()
    assert given.grad is not None
    assert np.abs(given.grad.numpy()).max() > 0
