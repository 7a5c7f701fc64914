"""Connectionist temporal classification: gradients, and nothing read back."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.twin import host_reads
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.ops.loss.ctc import ctc_losses


def arguments(place: Device, dtype: DType = fw.float32) -> list[fw.Tensor]:
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.ones(3), (4, 2))).astype(np.float32)
    states, skips = [[0, 1, 0, 2, 0]] * 2, [[0, 0, 0, 1, 0]] * 2
    rest = (np.array(each, np.int32) for each in (states, skips, [4, 3], [5, 3]))
    made = [fw.tensor(each, device=place) for each in (log_probs, *rest)]
    made[0] = made[0].to(dtype).requires_grad_()
    return made


def test_nothing_is_read_back(place: Device) -> None:
    given = arguments(place)
    before = host_reads(given[0])
    losses, _ = ctc_losses(*given)
    losses.sum().backward()
    fw.eval()
    assert host_reads(given[0]) == before
    # Of each step the posterior probabilities add up to 1, as the others do.
    sums = given[0].grad.numpy().sum(-1)
    np.testing.assert_allclose(sums, 0, atol=1e-5)
    assert not given[0].grad.numpy()[3, 1].any()


def test_float64_is_the_same_on_a_device(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    found = []
    for place in (gpu, fw.device("cpu")):
        given = arguments(place, fw.float64)
        losses, _ = ctc_losses(*given)
        losses.sum().backward()
        assert losses.device is place
        found.append((losses.detach().numpy(), given[0].grad.numpy()))
    for ours, wanted in zip(*found):
        np.testing.assert_allclose(ours, wanted, 1e-12, 1e-12)


def test_jitted(place: Device) -> None:
    given = arguments(place)

    @fw.jit
    def step(log_probs: fw.Tensor) -> fw.Tensor:
        losses, _ = ctc_losses(log_probs, *given[1:])
        losses.sum().backward()
        return losses

    found = [step(given[0]).detach().numpy() for _ in range(3)]
    expected, _ = ctc_losses(*given)
    for each in found:
        np.testing.assert_allclose(each, expected.detach().numpy(), rtol=1e-6)


def test_no_second_derivative() -> None:
    given = arguments(fw.device("cpu"))
    losses, _ = ctc_losses(*given)
    losses.sum().backward(create_graph=True)
    with pytest.raises(GradError, match="ctc_variables has no gradient rule"):
        given[0].grad.sum().backward()
