"""Multi-head attention against PyTorch: masks, layouts, weights."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

SIZE, HEADS = 12, 3


def layers(place: Device, **options: Any) -> tuple[nn.Module, torch.nn.Module]:
    """Return both layers with the same parameters."""
    ours = nn.MultiheadAttention(SIZE, HEADS, **options)
    theirs = torch.nn.MultiheadAttention(SIZE, HEADS, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-1, 1)
    state = theirs.state_dict().items()
    ours.load_state_dict({name: fw.tensor(t.numpy()) for name, t in state})
    return ours.to(place), theirs


def masks(rng: np.random.Generator, kind: str) -> dict[str, np.ndarray]:
    """Return masks that hide some keys, but not the first."""
    hidden = rng.uniform(size=(2, 7)) < 0.4
    blocked = rng.uniform(size=(5, 7)) < 0.4
    hidden[:, 0] = blocked[:, 0] = False
    found: dict[str, np.ndarray] = {}
    if kind in ("keys", "both"):
        found["key_padding_mask"] = hidden
    if kind in ("queries", "both"):
        found["attn_mask"] = blocked
    if kind == "numbers":
        found["attn_mask"] = rng.normal(size=(2 * HEADS, 5, 7)).astype(np.float32)
    return found


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["none", "keys", "queries", "both", "numbers"])
def test_is_as_in_torch(
    kind: str, need_weights: bool, place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = layers(place, batch_first=True)
    shapes = ((2, 5, SIZE), (2, 7, SIZE), (2, 7, SIZE))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    given = masks(rng, kind)
    x = [fw.tensor(each, device=place, requires_grad=True) for each in arrays]
    twins = [torch.tensor(each, requires_grad=True) for each in arrays]
    found, weights = ours(
        *x,
        need_weights=need_weights,
        **{name: fw.tensor(mask, device=place) for name, mask in given.items()},
    )
    expected, wanted = theirs(
        *twins,
        need_weights=need_weights,
        **{name: torch.from_numpy(mask) for name, mask in given.items()},
    )
    # Products of products: sums of hundreds of terms.
    assert_close(found, expected.detach().numpy(), scale=20)
    if need_weights:
        assert_close(weights, wanted.detach().numpy(), scale=20)
    else:
        assert weights is None
    found.sum().backward()
    expected.sum().backward()
    pairs: list[tuple[Any, Any]] = list(zip(x, twins))
    pairs += zip(ours.parameters(), theirs.parameters(), strict=True)
    for one, other in pairs:
        assert_close(one.grad, other.grad.numpy(), scale=100)


@pytest.mark.parametrize("batched", [True, False])
def test_of_itself(batched: bool, place: Device, rng: np.random.Generator) -> None:
    ours, theirs = layers(place)
    data = rng.normal(size=(5, 2, SIZE) if batched else (5, SIZE)).astype(np.float32)
    x, twin = fw.tensor(data, device=place), torch.tensor(data)
    found, weights = ours(x, x, x, average_attn_weights=False)
    expected, wanted = theirs(twin, twin, twin, average_attn_weights=False)
    assert_close(found, expected.detach().numpy(), scale=20)
    assert_close(weights, wanted.detach().numpy(), scale=20)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_causal(
    masked: bool, need_weights: bool, place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = layers(place, bias=False, batch_first=True)
    data = rng.normal(size=(2, 5, SIZE)).astype(np.float32)
    hidden = np.zeros((2, 5), bool)
    hidden[1, 3:] = masked
    x, twin = fw.tensor(data, device=place), torch.tensor(data)
    keys = fw.tensor(hidden, device=place) if masked else None
    found, _ = ours(x, x, x, keys, need_weights, is_causal=True)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(twin, twin, twin, torch.from_numpy(hidden), attn_mask=future)
    assert_close(found, expected.detach().numpy(), scale=20)


def test_dropout_only_in_training(place: Device) -> None:
    layer = nn.MultiheadAttention(SIZE, HEADS, dropout=0.5).to(place)
    x = fw.ones((5, 2, SIZE), device=place)
    first, second = (layer(x, x, x)[0].detach().numpy() for _ in range(2))
    assert (first != second).any()
    layer.eval()
    first, second = (layer(x, x, x)[0].detach().numpy() for _ in range(2))
    assert (first == second).all()


def test_heads_must_divide() -> None:
    with pytest.raises(ShapeError, match="the heads must divide embed_dim"):
        nn.MultiheadAttention(10, 3)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"kdim": 5, "vdim": 7},
        {"kdim": 5, "add_bias_kv": True, "batch_first": True},
        {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
        {"add_zero_attn": True, "batch_first": True},
    ],
)
def test_other_sizes_and_more_keys(
    options: dict[str, Any],
    need_weights: bool,
    place: Device,
    rng: np.random.Generator,
) -> None:
    ours, theirs = layers(place, **options)
    assert repr(ours) == repr(theirs)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    given = masks(rng, "both")
    sizes = (5, SIZE), (7, ours.kdim), (7, ours.vdim)
    arrays = [rng.normal(size=(2, *each)).astype(np.float32) for each in sizes]
    if not ours.batch_first:
        arrays = [each.swapaxes(0, 1).copy() for each in arrays]
    x = [fw.tensor(each, device=place) for each in arrays]
    twins = [torch.tensor(each) for each in arrays]
    found, weights = ours(
        *x,
        need_weights=need_weights,
        **{name: fw.tensor(mask, device=place) for name, mask in given.items()},
    )
    expected, wanted = theirs(
        *twins,
        need_weights=need_weights,
        **{name: torch.from_numpy(mask) for name, mask in given.items()},
    )
    assert_close(found, expected.detach().numpy(), scale=20)
    assert (weights is None) == (wanted is None)
    (found * found).sum().backward()
    (expected * expected).sum().backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(one.grad, other.grad.numpy(), scale=1000)


def test_a_query_alone_attends_to_itself() -> None:
    layer = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    x = fw.ones((2, 5, SIZE))
    assert fw.equal(layer(x)[0], layer(x, x, x)[0])


@pytest.mark.parametrize("need_weights", [True, False])
def test_masks_must_fit(need_weights: bool) -> None:
    layer = nn.MultiheadAttention(SIZE, HEADS)
    x, mask = fw.ones((5, 2, SIZE)), fw.zeros((5, 4))
    with pytest.raises(ShapeError, match=r"attn_mask is \(5, 4\)"):
        layer(x, x, x, attn_mask=mask, need_weights=need_weights)
    with pytest.raises(ShapeError, match="keys and values must be as many"):
        layer(x, x, x[:4], need_weights=need_weights)


def test_arguments_are_those_of_torch() -> None:
    ours, theirs = (
        inspect.signature(lib.MultiheadAttention).parameters.values()
        for lib in (nn, torch.nn)
    )
    found, expected = (
        [(each.name, each.kind.name, each.default) for each in parameters]
        for parameters in (ours, theirs)
    )
    assert found == expected
    calls = (
        inspect.signature(lib.MultiheadAttention.forward) for lib in (nn, torch.nn)
    )
    found_names, expected_names = ([*each.parameters] for each in calls)
    assert found_names == expected_names


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_calls_on_other_numbers_are_as_in_torch(
    need_weights: bool, grad: bool, place: Device, rng: np.random.Generator
) -> None:
    """From the third on they are replayed."""
    ours, theirs = layers(place, batch_first=True)
    for _ in range(4):
        data = rng.normal(size=(2, 5, SIZE)).astype(np.float32)
        x = fw.tensor(data, device=place, requires_grad=grad)
        twin = torch.tensor(data, requires_grad=grad)
        with fw.set_grad_enabled(grad):
            found, weights = ours(x, x, x, need_weights=need_weights)
        expected, wanted = theirs(twin, twin, twin, need_weights=need_weights)
        assert_close(found, expected.detach().numpy(), scale=20)
        if need_weights:
            assert_close(weights, wanted.detach().numpy(), scale=20)
        if grad:
            found.sum().backward()
            expected.sum().backward()
            assert twin.grad is not None
            assert_close(x.grad, twin.grad.numpy(), scale=100)
