"""The models are the same here and in PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench.models import Sizes, perceptron, resnet18, transformer

torch = pytest.importorskip("torch")

SMALL = Sizes(words=11, length=5, width=8, heads=2, blocks=2)
IMAGES = np.random.default_rng(0).standard_normal((2, 3, 33, 32), np.float32)
TOKENS = np.arange(10).reshape(2, 5) % SMALL.words


@pytest.mark.parametrize(
    ("build", "data"),
    [
        (lambda library: perceptron(library, (32, 7, 3)), IMAGES),
        (lambda library: transformer(library, SMALL), TOKENS),
        (lambda library: transformer(library, SMALL._replace(tied=True)), TOKENS),
        (lambda library: resnet18(library, 10, 4), IMAGES),
    ],
    ids=["perceptron", "transformer", "tied", "resnet18"],
)
def test_models_agree(build: Callable[[Any], Any], data: np.ndarray[Any, Any]) -> None:
    ours, theirs = build(fw), build(torch)
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    here = ours.state_dict()
    assert set(here) == set(state)
    ours.load_state_dict(
        {
            name: fw.tensor(state[name], dtype=value.dtype)
            for name, value in here.items()
        }
    )
    found = ours(fw.tensor(data)).detach().numpy()
    wanted = theirs(torch.from_numpy(data)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
