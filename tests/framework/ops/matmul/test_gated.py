"""Gated products of few rows: which layers are one kernel, and with what result."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import change_model, forget_plans
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.models.activation import ACTIVATIONS, gated_product
from vkbackend.framework.ops.matmul import gated


@pytest.fixture
def taking(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device, whose gated products are one kernel."""
    skip_where_it_crashes(gpu.gpu.info)
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    change_model(monkeypatch, gemv_smallest=1)
    monkeypatch.setattr(gated.register_gemv, "takes_gate", lambda *_: True)
    forget_plans()
    return gpu


def layers(gpu: GpuDevice, dtype: str, bias: bool = False) -> list[nn.Linear]:
    fw.manual_seed(0)
    return [nn.Linear(64, 22, bias=bias).to(gpu, getattr(fw, dtype)) for _ in range(2)]


@pytest.mark.parametrize("activation", ["silu", "gelu_pytorch_tanh"])
@pytest.mark.parametrize(("dtype", "bound"), [("float16", 1e-3), ("bfloat16", 8e-3)])
def test_is_one_kernel(
    activation: str, dtype: str, bound: float, taking: GpuDevice
) -> None:
    gate, up = layers(taking, dtype)
    x = fw.tensor(np.linspace(-2, 2, 128).reshape(2, 1, 64), dtype, taking)
    with fw.no_grad():
        g, u = (each.weight.float() for each in (gate, up))
        want = ACTIVATIONS[activation](x.float() @ g.T) * (x.float() @ u.T)
        fw.eval(x, want, gate.weight, up.weight)
        with taking.gpu.profile() as profile:
            found = gated_product(x, gate, up, activation)
            fw.eval(found)
    assert found.shape == (2, 1, 22)
    assert found.dtype is getattr(fw, dtype)
    assert [span.name.split(" ")[0] for span in profile.spans] == ["quantized/gemv"]
    np.testing.assert_allclose(
        found.float().numpy(), want.numpy(), rtol=bound, atol=bound
    )


def test_what_keeps_layers_apart(taking: GpuDevice) -> None:
    """Hooks, biases, other activations, dtypes and gradients."""
    x = fw.tensor(np.linspace(-1, 1, 64)[None], "float16", taking)
    gate, up = layers(taking, "float16")
    calls: list[nn.Module] = []
    handle = up.register_forward_hook(lambda module, *_: calls.append(module))
    with fw.no_grad():
        gated_product(x, gate, up, "silu")
    handle.remove()
    assert calls == [up]
    assert gated.takes_gated_linear(x, gate.weight, up.weight, "silu")
    assert not gated.takes_gated_linear(x.float(), gate.weight, up.weight, "silu")
    assert not gated.takes_gated_linear(x, gate.weight[:20], up.weight, "silu")
    assert not gated.takes_gated_linear(x, gate.weight, up.weight, "relu")
    for pair, activation in (
        (layers(taking, "float16", True), "silu"),
        ((gate, up), "relu"),
    ):
        want = ACTIVATIONS[activation](pair[0](x)) * pair[1](x)
        found = gated_product(x, *pair, activation)
        np.testing.assert_array_equal(found.detach().numpy(), want.detach().numpy())
    gated_product(x, gate, up, "silu").sum().backward()
    assert gate.weight.grad is not None
