from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError


def model() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(11, 64), nn.Linear(64, 96), nn.Linear(96, 5))


def test_layers_are_near_those_of_floats(place: Device) -> None:
    layers = model().to(place)
    tokens = fw.tensor([[1, 2, 10]], device=place)
    want = layers(tokens).detach().cpu().numpy()
    nn.quantize(layers, "q8_0")
    assert [type(each).__name__ for each in layers] == [
        "QEmbedding", "QLinear", "QLinear",
    ]  # fmt: skip
    got = layers(tokens)
    assert got.device == place
    np.testing.assert_allclose(got.detach().cpu().numpy(), want, atol=0.02)


def test_report() -> None:
    layers = model()
    report = nn.quantize(layers, "q4_k", skip=["0"])
    assert report.layers == ()
    assert report.kept == {
        "0": "skipped",
        "1": "64 columns are no multiple of 256",
        "2": "96 columns are no multiple of 256",
    }
    report = nn.quantize(layers, "q4_0", skip=["*2"])
    assert [each.name for each in report.layers] == ["0", "1"]
    assert report.before == 4 * 64 * (11 + 96)
    assert report.after == 36 * (11 + 96)
    assert all(18 < each.signal_to_noise < 30 for each in report.layers)
    assert str(report).splitlines()[-1] == "2 layers, 27392 -> 3852 bytes"


def test_bias_is_trained_and_the_weight_is_not() -> None:
    layer = nn.QLinear.from_linear(nn.Linear(64, 3), "int4_g32")
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    before = layer.weight.blocks.numpy().copy()
    optimizer = fw.optim.SGD(layer.parameters(), 0.1)
    layer(fw.ones((2, 64))).sum().backward()
    shift = layer.bias
    assert shift is not None
    old = shift.detach().numpy().copy()
    optimizer.step()
    np.testing.assert_allclose(shift.detach().numpy(), old - 0.2, rtol=1e-6)
    np.testing.assert_array_equal(layer.weight.blocks.numpy(), before)


def test_shared_weights_stay_shared() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 32)
            self.head = nn.Linear(32, 7, bias=False)
            self.head.weight = self.table.weight
            self.again = self.head

    tied = Tied()
    report = nn.quantize(tied, "q8_0")
    assert [(each.name, each.after) for each in report.layers] == [
        ("table", 7 * 34),
        ("head", 0),
    ]
    assert tied.table.weight.blocks is tied.head.weight.blocks  # type: ignore[comparison-overlap]
    assert tied.again is tied.head


def test_saved_and_loaded(tmp_path: Path) -> None:
    layers, other = model(), model()
    nn.quantize(layers, "q5_1")
    fw.save(layers.state_dict(), tmp_path / "model.safetensors")
    nn.quantize(other, "q5_1")
    other.load_state_dict(fw.load(tmp_path / "model.safetensors"))
    tokens = fw.tensor([3, 4])
    np.testing.assert_array_equal(
        other(tokens).detach().numpy(), layers(tokens).detach().numpy()
    )


def test_blocks_of_another_format_are_not_loaded() -> None:
    """Rows of q4_0 and q4_k are of one size."""
    one = nn.QLinear(256, 3, "q4_0")
    with pytest.raises(RuntimeError, match="weight_q4_0"):
        nn.QLinear(256, 3, "q4_k").load_state_dict(one.state_dict())
    with pytest.raises(ShapeError, match=r"it is q4_0 of .* it must be q4_k of"):
        nn.QLinear(256, 3, "q4_k").weight = one.weight


def test_casts_change_what_is_looked_up() -> None:
    table = nn.QEmbedding(3, 32).half()
    assert table(fw.tensor([1])).dtype is fw.float16
    assert table.weight.dtype is fw.float16
    assert table.weight.blocks.dtype is fw.uint8


def test_repr() -> None:
    assert repr(nn.QLinear(64, 3, "q4_1", bias=False)) == (
        "QLinear(in_features=64, out_features=3, format='q4_1', bias=False)"
    )
    assert repr(nn.QEmbedding(5, 64)) == "QEmbedding(5, 64, format='q8_0')"


def test_under_jit(gpu: GpuDevice) -> None:
    layers = model().to(gpu)
    nn.quantize(layers, "q8_0")
    step = fw.jit(layers)
    for token in (1, 2, 5):
        index = fw.tensor([token], device=gpu)
        np.testing.assert_allclose(
            step(index).detach().cpu().numpy(),
            layers(index).detach().cpu().numpy(),
            atol=1e-6,
        )


def test_refusals_change_nothing() -> None:
    with pytest.raises(ArgumentError, match="the model is a Linear; it must be a mod"):
        nn.quantize(nn.Linear(64, 3))
    layers = model()
    with fw.no_grad():
        layers[2].weight[0, 0] = float("inf")
    with pytest.raises(DTypeError, match="infinite or no number"):
        nn.quantize(layers)
    assert [type(each) for each in layers] == [nn.Embedding, nn.Linear, nn.Linear]
    with pytest.raises(ArgumentError, match=r"nn\.quantize: format is 'q1'"):
        nn.quantize(layers, "q1")


@pytest.mark.parametrize("format", ["q8_0", "q4_k", "int4_g32"])
def test_layers_of_one_input_are_one_launch(gpu: GpuDevice, format: str) -> None:
    layers = [
        nn.QLinear.from_linear(nn.Linear(256, n).requires_grad_(False), format).to(gpu)
        for n in (20, 3, 40)
    ]
    x = fw.randn(2, 256).to(gpu)
    wanted = [layer(x).numpy() for layer in layers]
    before = gpu.gpu.counters.snapshot()
    found = [layer(x) for layer in layers]
    fw.eval()
    assert (gpu.gpu.counters.snapshot() - before).dispatches == 1
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)
