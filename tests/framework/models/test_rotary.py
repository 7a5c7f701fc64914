"""Rotary position embedding beside transformers' formulas."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models import ModelConfig
from vkbackend.framework.models.rotary import Rotary, frequencies, rotated


def test_pairs_are_rotated() -> None:
    turns = frequencies(ModelConfig({"rope_theta": 100.0}), 4)
    np.testing.assert_allclose(turns, [1, 0.1])
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    angles = Rotary(turns).angles(fw.arange(3), fw.tensor(x))
    found = rotated(fw.tensor(x), angles).numpy()
    pairs = x[:, :2] + 1j * x[:, 2:]
    pairs = pairs * np.exp(1j * np.arange(3)[:, None] * turns)
    np.testing.assert_allclose(found, np.hstack([pairs.real, pairs.imag]), rtol=1e-5)


@pytest.mark.device
def test_frequencies_are_uploaded_once(gpu: GpuDevice) -> None:
    """A replay has its own, and gives the same."""
    rotary = Rotary(frequencies(ModelConfig({"rope_theta": 100.0}), 4))
    places, like = fw.arange(3, device=gpu), fw.ones(1, device=gpu)
    wanted = [each.numpy() for each in rotary.angles(places, like)]
    before = gpu.gpu.counters.snapshot()
    for _ in range(3):
        found = rotary.angles(places, like)
    assert (gpu.gpu.counters.snapshot() - before).uploads == 0
    step = fw.jit(lambda places: rotary.angles(places, like))
    for _ in range(4):
        for answer in (found, step(places), rotary.angles(places, like)):
            for each, one in zip(answer, wanted):
                np.testing.assert_array_equal(each.numpy(), one)


def test_older_and_newer_configurations() -> None:
    scaling = {"type": "linear", "factor": 2.0}
    older = ModelConfig({"rope_theta": 100.0, "rope_scaling": scaling})
    newer = {"rope_type": "linear", "factor": 2, "rope_theta": 100.0}
    wanted = frequencies(ModelConfig({"rope_theta": 100}), 8) / 2
    np.testing.assert_allclose(frequencies(older, 8), wanted)
    found = frequencies(ModelConfig({"rope_parameters": newer}), 8)
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_base(factor: float) -> None:
    """All are divided, of a head so large that a wrong base would be infinite."""
    scaling = {"type": "linear", "factor": factor}
    settings = {"rope_theta": 10000.0, "rope_scaling": scaling}
    theta, factors = Rotary(frequencies(ModelConfig(settings), 128)).base()
    np.testing.assert_allclose(theta, 10000.0, rtol=1e-4)
    if factor == 1.0:
        assert factors is None
    else:
        assert factors is not None
        np.testing.assert_allclose(factors, factor, rtol=1e-4)


def test_llama3_scales_what_turns_slowly() -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    plain = frequencies(ModelConfig({}), 16)
    found = frequencies(ModelConfig({"rope_scaling": scaling}), 16)
    np.testing.assert_allclose(found[0], plain[0])
    np.testing.assert_allclose(found[-1], plain[-1] / 8, rtol=1e-6)
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rope_type": "yarn"}, r"the type is 'yarn'; accepted: 'default'"),
        ({"rope_type": "linear"}, r"rope_parameters: `factor` is missing"),
    ],
)
def test_refusals(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        frequencies(ModelConfig({"rope_parameters": settings}), 8)
