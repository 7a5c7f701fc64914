"""Pruned parameters are PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.nn.utils import prune

X = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)


def pair() -> list[Any]:
    """Return our layer and PyTorch's with the same weights."""
    theirs = torch.nn.Linear(6, 5)
    ours = nn.Linear(6, 5)
    ours.load_state_dict(
        {k: fw.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    )
    return [(ours, prune, fw), (theirs, torch.nn.utils.prune, torch)]


STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda m, p, lib: p.identity(m, "weight"),
    lambda m, p, lib: p.l1_unstructured(m, "weight", 0.3),
    lambda m, p, lib: p.ln_structured(m, "weight", 2, n=2, dim=0),
    lambda m, p, lib: p.ln_structured(
        p.l1_unstructured(m, "weight", 4), "weight", 0.4, n=1, dim=1
    ),
    lambda m, p, lib: p.l1_unstructured(
        p.ln_structured(m, "weight", 1, n=float("inf"), dim=-1), "weight", amount=0.5
    ),
    lambda m, p, lib: p.custom_from_mask(m, "bias", lib.tensor([0, 1, 1, 0, 1])),
    lambda m, p, lib: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=11
    ),
]


@pytest.mark.parametrize("step", STEPS)
def test_values_states_and_removal(step: Callable[[Any, Any, Any], Any]) -> None:
    found = []
    for module, namespace, library in pair():
        step(module, namespace, library)
        module(library.tensor(X)).sum().backward()
        state = {key: each.numpy() for key, each in module.state_dict().items()}
        grads = {
            key: each.grad.numpy() for key, each in module.named_parameters()
            if each.grad is not None
        }  # fmt: skip
        for name in ("weight", "bias"):
            if f"{name}_orig" in state:
                namespace.remove(module, name)
        assert not namespace.is_pruned(module)
        after = {key: each.numpy() for key, each in module.state_dict().items()}
        found.append((state, grads, after, module(library.tensor(X)).detach().numpy()))
    ours, theirs = found
    for one, two in zip(ours[:3], theirs[:3]):
        assert one.keys() == two.keys()
        for key in one:
            np.testing.assert_allclose(one[key], two[key], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[3], theirs[3], rtol=1e-5, atol=1e-6)


def test_random_counts() -> None:
    layer = prune.random_unstructured(nn.Linear(6, 5), "weight", 7)
    assert int((layer.weight == 0).sum().item()) == 7
    layer = prune.random_structured(nn.Linear(6, 5), "weight", 0.4, dim=0)
    assert int((layer.weight == 0).all(1).sum().item()) == 2
    assert prune.is_pruned(nn.Sequential(layer))


@pytest.mark.parametrize(
    ("amount", "error"), [(-1, ValueError), (1.5, ValueError), ("1", TypeError)]
)
def test_amounts(amount: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="prune: amount is"):
        prune.l1_unstructured(nn.Linear(2, 2), "weight", amount)
    with pytest.raises(ValueError, match="there are only 4"):
        prune.l1_unstructured(nn.Linear(2, 2), "weight", 5)
    with pytest.raises(ValueError, match="weight of Linear is not pruned"):
        prune.remove(nn.Linear(2, 2), "weight")
