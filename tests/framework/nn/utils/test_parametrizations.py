"""Weight and spectral norm as parametrizations, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn

LAYERS: dict[str, Any] = {
    "linear": (lambda n: n.Linear(3, 2), (4, 3)),
    "conv": (lambda n: n.Conv1d(3, 2, 3), (4, 3, 5)),
    "transposed": (lambda n: n.ConvTranspose1d(3, 2, 3), (4, 3, 5)),
}


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("layer", LAYERS)
def test_are_pytorchs(kind: str, layer: str, rng: np.random.Generator) -> None:
    make, shape = LAYERS[layer]
    theirs = getattr(torch.nn.utils.parametrizations, kind)(make(torch.nn))
    ours = getattr(nn.utils.parametrizations, kind)(make(nn))
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    x = rng.normal(size=shape).astype("f4")
    for _ in range(2):
        found, expected = ours(fw.tensor(x)), theirs(torch.tensor(x))
        assert_close(found, expected.detach().numpy(), scale=20)
        found.sum().backward()
        expected.sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(mine.grad, other.grad.numpy(), scale=100)
    for name, value in theirs.state_dict().items():
        assert_close(ours.state_dict()[name], value.numpy(), scale=20)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
def test_orthogonal(shape: tuple[int, int], kind: str | None) -> None:
    theirs = torch.nn.Linear(*shape, bias=False)
    torch.nn.init.orthogonal_(theirs.weight)
    ours = nn.Linear(*shape, bias=False)
    ours.load_state_dict(theirs.state_dict())
    before = theirs.weight.detach().numpy().copy()
    nn.utils.parametrizations.orthogonal(ours, orthogonal_map=kind)
    torch.nn.utils.parametrizations.orthogonal(theirs, orthogonal_map=kind)
    np.testing.assert_allclose(ours.weight.detach().numpy(), before, atol=1e-5)
    # From one triangle and base both make the same, with the same gradients.
    ours.load_state_dict(theirs.state_dict())
    step = np.random.default_rng(0).standard_normal(before.shape).astype(np.float32)
    with torch.no_grad():
        theirs.parametrizations.weight.original.add_(torch.tensor(step))
    ours.parametrizations.weight.original.data.add_(fw.tensor(step))
    found, expected = ours.weight, theirs.weight
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), atol=1e-4
    )
    (found * fw.tensor(step)).sum().backward()
    (expected * torch.tensor(step)).sum().backward()
    pair = [each.parametrizations.weight.original.grad for each in (ours, theirs)]
    np.testing.assert_allclose(pair[0].numpy(), pair[1].numpy(), atol=2e-3)


def test_orthogonal_refusals() -> None:
    make = nn.utils.parametrizations.orthogonal
    with pytest.raises(ValueError, match="it must have at least 2 dimensions"):
        make(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="it must be 'matrix_exp', 'cayley'"):
        make(nn.Linear(2, 2), orthogonal_map="other")
