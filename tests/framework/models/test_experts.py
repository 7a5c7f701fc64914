"""Mixture of experts beside a sum over tokens, with weights gathered or all read."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.models.experts import Experts, SparseMLP

COUNT, WIDTH, INNER = 7, 5, 3


def filled(module: fw.nn.Module) -> Any:
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for each in module.parameters():
            each.copy_(fw.tensor(rng.standard_normal(each.shape, np.float32)))
    return module


def expected(model: Any, x: np.ndarray, chosen: Any, shares: Any) -> np.ndarray:
    gate, up, down = (
        each.weight.detach().numpy() for each in (model.gate, model.up, model.down)
    )
    out = np.zeros_like(x)
    for token, (experts, weights) in enumerate(zip(chosen, shares, strict=True)):
        for expert, weight in zip(experts, weights, strict=True):
            scores = gate[expert] @ x[token]
            inner = scores / (1 + np.exp(-scores)) * (up[expert] @ x[token])
            out[token] += weight * (down[expert] @ inner)
    return out


@pytest.mark.parametrize("tokens", [1, 2, 11])
def test_sums_what_is_chosen(place: Any, tokens: int) -> None:
    model = filled(Experts(COUNT, WIDTH, INNER, ("a", "b", "c")))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((tokens, WIDTH)).astype(np.float32)
    chosen = np.stack([rng.permutation(COUNT)[:2] for _ in range(tokens)])
    shares = rng.random((tokens, 2)).astype(np.float32)
    wanted = expected(model, x, chosen, shares)
    given = (fw.tensor(each, device=place) for each in (x, chosen, shares))
    found = model.to(place)(*given).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_what_is_not_chosen_may_overflow(place: Any) -> None:
    model = filled(Experts(2, WIDTH, INNER, ("a", "b", "c")))
    with fw.no_grad():
        model.up.weight[1] = np.inf
    tokens = fw.ones(3, WIDTH, device=place)
    chosen = fw.zeros(3, 1, dtype=fw.int64, device=place)
    found = model.to(place)(tokens, chosen, fw.ones(3, 1, device=place))
    assert np.isfinite(found.detach().numpy()).all()


@pytest.mark.parametrize("tokens", [1, 4])
def test_recorded_choices_follow_the_tokens(gpu: Any, tokens: int) -> None:
    model = filled(SparseMLP(COUNT, WIDTH, INNER, 2, True)).to(gpu)
    step = fw.jit(lambda x: model(x))
    rng = np.random.default_rng(2)
    with fw.no_grad():
        for _ in range(4):
            x = fw.tensor(rng.standard_normal((tokens, WIDTH), np.float32), device=gpu)
            found = step(x).numpy()
            np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-5, atol=1e-5)
    assert (step.traces, step.replays) == (1, 3)


def test_gradients_are_those_of_each_token(place: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, WIDTH)).astype(np.float32)
    chosen = np.stack([rng.permutation(COUNT)[:2] for _ in range(6)])
    shares = rng.random((6, 2)).astype(np.float32)
    model = filled(Experts(COUNT, WIDTH, INNER, ("a", "b", "c"))).to(place)
    weights = [each.detach().cpu().numpy() for each in model.parameters()]
    theirs = [torch.tensor(each, requires_grad=True) for each in (*weights, x, shares)]
    gate, up, down, rows, parts = theirs
    inner = torch.einsum("tw,tkiw->tki", rows, gate[chosen])
    inner = torch.nn.functional.silu(inner)
    inner = inner * torch.einsum("tw,tkiw->tki", rows, up[chosen])
    found = torch.einsum("tki,tkwi->tkw", inner, down[chosen])
    (found * parts[..., None]).sum(1).square().sum().backward()
    given = [fw.tensor(each, device=place, requires_grad=True) for each in (x, shares)]
    out = model(given[0], fw.tensor(chosen, device=place), given[1])
    out.square().sum().backward()
    for ours, wanted in zip([*model.parameters(), *given], theirs, strict=True):
        assert ours.grad is not None
        assert wanted.grad is not None
        np.testing.assert_allclose(
            ours.grad.cpu().numpy(), wanted.grad.numpy(), rtol=1e-4, atol=1e-4
        )


def test_what_chooses_experts_is_not_quantized() -> None:
    model = filled(SparseMLP(COUNT, 32, 32, 2, True))
    report = fw.nn.quantize(model, "q4_0")
    names = [each.name for each in report.layers]
    assert names == ["experts.gate", "experts.up", "experts.down"]


@pytest.mark.parametrize("tokens", [2, 15])
def test_quantized_experts(place: Any, tokens: int) -> None:
    rng = np.random.default_rng(4)
    model = filled(Experts(COUNT, 32, 64, ("a", "b", "c")))
    fw.nn.quantize(model, "q8_0")
    x = rng.standard_normal((tokens, 32)).astype(np.float32)
    chosen = rng.integers(0, COUNT, (tokens, 2))
    shares = rng.random((tokens, 2)).astype(np.float32)
    floats = filled(Experts(COUNT, 32, 64, ("a", "b", "c")))
    with fw.no_grad():
        for name in ("gate", "up", "down"):
            getattr(floats, name).weight.copy_(getattr(model, name).weight.dequantize())
    wanted = expected(floats, x, chosen, shares)
    given = (fw.tensor(each, device=place) for each in (x, chosen, shares))
    found = model.to(place)(*given).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-2)
