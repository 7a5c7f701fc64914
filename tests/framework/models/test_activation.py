"""Activations by name beside transformers."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import torch
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.activation import ACTIVATIONS, activation_name
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
