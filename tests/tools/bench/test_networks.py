"""The networks are the same here and in PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench import networks

torch = pytest.importorskip("torch")

NUMBERS = np.random.default_rng(0).standard_normal((2, 3, 16, 16), np.float32)


@pytest.mark.parametrize(
    ("build", "data"),
    [
        (
            lambda library: networks.vision_transformer(library, 16, 8, 8, 2, 1, 5),
            NUMBERS,
        ),
        (lambda library: networks.u_net(library, 8, 1, 3), NUMBERS),
        (lambda library: networks.lstm_by_hand(library, 16, 8, 5), NUMBERS[0]),
        (lambda library: networks.mobile_net(library, 2, 5), NUMBERS),
        (lambda library: networks.graph_network(library, 48, 9, 16, 1, 3), None),
    ],
    ids=["vision_transformer", "u_net", "lstm", "mobile_net", "graph_network"],
)
def test_networks_agree(
    build: Callable[[Any], Any], data: np.ndarray[Any, Any] | None
) -> None:
    data = NUMBERS[0].reshape(-1, 16) if data is None else data
    # Batch norm of two values is a sign, which some weights leave to rounding.
    torch.manual_seed(0)
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
