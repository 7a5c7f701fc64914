"""The whole library in twenty short tests: read this first."""

from pathlib import Path

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device

pytestmark = pytest.mark.core

DOUBLE = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
    float at[];
};
layout(push_constant) uniform Push { Floats x; Floats y; uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) y.at[i] = 2.0 * x.at[i];
}
"""


@pytest.fixture
def gpu(device: vkbackend.Device) -> Device:
    """Return the Vulkan device under test, which any selector would also find."""
    fw.manual_seed(0)
    return fw.device(device.name)


def test_a_raw_kernel_runs(device: vkbackend.Device) -> None:
    data = np.arange(5, dtype=np.float32)
    x, y = device.allocate(data.nbytes), device.allocate(data.nbytes)
    device.upload(data, x)
    double = device.pipeline("double", source=DOUBLE, constants={"LOCAL_X": 64})
    batch = device.batch()
    batch.dispatch(double, (1, 1, 1), {"x": x, "y": y, "count": 5}, [x], [y])
    batch.submit()
    assert np.frombuffer(device.read(y), np.float32).tolist() == [0, 2, 4, 6, 8]


def test_numpy_in_numpy_out(gpu: Device) -> None:
    x = fw.tensor(np.array([[1, 2], [3, 4]], np.float32)).to_gpu(gpu)
    assert x.is_gpu
    assert np.array_equal(x.numpy(), [[1, 2], [3, 4]])


def test_arithmetic(gpu: Device) -> None:
    x = fw.tensor([1.0, 2.0, 3.0], device=gpu)
    assert (2 * x + x / 2 - 1).tolist() == [1.5, 4.0, 6.5]


def test_broadcasting(gpu: Device) -> None:
    column, row = fw.tensor([[1.0], [2.0]], device=gpu), fw.ones(3, device=gpu)
    assert (column * row).tolist() == [[1, 1, 1], [2, 2, 2]]


def test_views_share_memory(gpu: Device) -> None:
    x = fw.zeros((2, 3), device=gpu)
    x.mT[1] = 7
    assert x.tolist() == [[0, 7, 0], [0, 7, 0]]


def test_matrix_product(gpu: Device) -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], device=gpu)
    assert (x @ x).tolist() == [[7, 10], [15, 22]]


def test_reductions(gpu: Device) -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]], device=gpu)
    assert x.sum().item() == 10
    assert x.mean(0).tolist() == [2, 3]
    assert x.argmax(1).tolist() == [1, 1]


def test_dtypes(gpu: Device) -> None:
    x = fw.tensor([250, 5], "uint8", gpu)
    assert (x + 10).tolist() == [4, 15]
    assert (x / 2).dtype is fw.float32


def test_nothing_runs_until_it_is_read(gpu: Device) -> None:
    x = fw.ones(5, device=gpu)
    fw.eval()
    before = gpu.gpu.counters.dispatches
    y = (x * 2 + 1).relu()
    assert gpu.gpu.counters.dispatches == before
    y.numpy()
    assert gpu.gpu.counters.dispatches == before + 1  # three ops, one kernel


def test_gradients(gpu: Device) -> None:
    x = fw.tensor([1.0, 2.0, 3.0], device=gpu, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_no_grad(gpu: Device) -> None:
    x = fw.ones(3, device=gpu, requires_grad=True)
    with fw.no_grad():
        assert not (x * 2).requires_grad


def test_random_numbers_are_the_same_everywhere(gpu: Device) -> None:
    fw.manual_seed(1)
    on_device = fw.rand(5, gpu)
    fw.manual_seed(1)
    assert on_device.tolist() == fw.rand(5).tolist()


def test_errors_say_what_would_be_right() -> None:
    text = "inner sizes differ: a is .4, 3., b is .5, 2.; a.shape.-1. = 3 must equal"
    with pytest.raises(ValueError, match=text):
        fw.ones((4, 3)) @ fw.ones((5, 2))


def test_a_layer(gpu: Device) -> None:
    layer = nn.Linear(3, 2).to_gpu(gpu)
    assert layer(fw.ones((5, 3), device=gpu)).shape == (5, 2)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_a_convolution(gpu: Device) -> None:
    images = fw.ones((1, 1, 4, 4), device=gpu)
    filters = fw.ones((1, 1, 3, 3), device=gpu)
    assert fw.ops.conv2d(images, filters).tolist() == [[[[9, 9], [9, 9]]]]


def test_a_loss(gpu: Device) -> None:
    logits = fw.zeros((2, 4), device=gpu)
    labels = fw.tensor([0, 3], "int32", gpu)
    assert fw.ops.cross_entropy(logits, labels).item() == pytest.approx(np.log(4))


def test_an_optimizer_step(gpu: Device) -> None:
    weight = nn.Parameter(fw.tensor([1.0, -1.0], device=gpu))
    (weight * weight).sum().backward()
    optim.SGD([weight], lr=0.25).step()
    assert weight.tolist() == [0.5, -0.5]


def test_training_fits_a_line(gpu: Device) -> None:
    x = fw.rand((64, 1), gpu)
    model = nn.Linear(1, 1).to_gpu(gpu)
    optimizer = optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    for _ in range(100):
        error = model(x) - (3 * x - 1)
        optimizer.zero_grad()
        (error * error).mean().backward()
        optimizer.step()
    assert model.weight.item() == pytest.approx(3, abs=0.1)
    assert model.bias.item() == pytest.approx(-1, abs=0.1)


def test_batches_of_data() -> None:
    data = fw.data.TensorDataset(fw.arange(10), fw.arange(10) * 2)
    batches = list(fw.data.DataLoader(data, batch_size=4))
    assert [x.tolist() for x, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_saved_weights_come_back(gpu: Device, tmp_path: Path) -> None:
    model = nn.Linear(3, 2).to_gpu(gpu)
    fw.save(model.state_dict(), tmp_path / "model.safetensors")
    twin = nn.Linear(3, 2)
    twin.load_state_dict(fw.load(tmp_path / "model.safetensors"))
    assert twin.weight.tolist() == model.weight.tolist()
