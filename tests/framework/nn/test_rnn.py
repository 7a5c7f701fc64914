"""Recurrent layers beside PyTorch's, with the same parameters."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice

IN, SIZE = 3, 5

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"bias": False, "bidirectional": True},
]


def pair(kind: str, place: Device, **options: Any) -> tuple[Any, Any]:
    """Return both layers with the same parameters."""
    theirs = getattr(torch.nn, kind)(IN, SIZE, **options)
    ours = getattr(nn, kind)(IN, SIZE, **options)
    assert repr(ours) == repr(theirs)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    return ours.to(place), theirs


def states(answer: Any) -> list[Any]:
    """Return all tensors of what a layer returns."""
    out, last = answer
    if isinstance(out, tuple):
        out = out[0]
    return [out, *(last if isinstance(last, tuple) else [last])]


def compare(ours: Any, theirs: Any, found: Any, expected: Any) -> None:
    """Check results, and the gradients of the parameters."""
    total, wanted = 0, 0
    for mine, other in zip(states(found), states(expected), strict=True):
        assert_close(mine, other.detach().numpy(), scale=20)
        total, wanted = total + (mine * mine).sum(), wanted + (other * other).sum()
    total.backward()  # type: ignore[attr-defined]
    wanted.backward()  # type: ignore[attr-defined]
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        # Sums over steps and batch of products of products.
        assert_close(mine.grad, other.grad.numpy(), scale=100)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_is_as_in_torch(
    kind: str, options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = pair(kind, place, **options)
    x = rng.normal(size=(4, 2, IN)).astype("f4")
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    batch = 4 if options.get("batch_first") else 2
    first = rng.normal(size=(2, count, batch, SIZE)).astype("f4")
    given = fw.tensor(first, device=place)
    hx: Any = (given[0], given[1]) if kind == "LSTM" else given[0]
    wanted: Any = (
        tuple(torch.tensor(first)) if kind == "LSTM" else torch.tensor(first[0])
    )
    found = ours(fw.tensor(x, device=place), hx)
    compare(ours, theirs, found, theirs(torch.tensor(x), wanted))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    "options",
    [{"num_layers": 2, "bidirectional": True, "proj_size": 2}, {"proj_size": 2}],
    ids=str,
)
def test_projections(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = pair("LSTM", place, **options)
    x = rng.normal(size=(4, 2, IN)).astype("f4")
    compare(ours, theirs, ours(fw.tensor(x, device=place)), theirs(torch.tensor(x)))


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed(
    kind: str, enforce_sorted: bool, place: Device, rng: np.random.Generator
) -> None:
    options = {"num_layers": 2, "bidirectional": True}
    if kind == "RNN":
        options["nonlinearity"] = "relu"  # type: ignore[assignment]  # a name
    ours, theirs = pair(kind, place, **options)
    x = rng.normal(size=(4, 3, IN)).astype("f4")
    lengths = [4, 2, 1] if enforce_sorted else [2, 4, 1]
    rnn = nn.utils.rnn
    given = rnn.pack_padded_sequence(
        fw.tensor(x, device=place), lengths, enforce_sorted=enforce_sorted
    )
    twin = torch.nn.utils.rnn.pack_padded_sequence(
        torch.tensor(x), torch.tensor(lengths), enforce_sorted=enforce_sorted
    )
    compare(ours, theirs, ours(given), theirs(twin))


def test_unbatched(place: Device, rng: np.random.Generator) -> None:
    ours, theirs = pair("LSTM", place)
    x = rng.normal(size=(4, IN)).astype("f4")
    h = rng.normal(size=(2, 1, SIZE)).astype("f4")
    given = fw.tensor(h, device=place)
    found = ours(fw.tensor(x, device=place), (given[0], given[1]))
    compare(ours, theirs, found, theirs(torch.tensor(x), tuple(torch.tensor(h))))


def test_dropout_between_layers(place: Device) -> None:
    layer = nn.GRU(IN, SIZE, num_layers=2, dropout=0.5).to(place)
    x = fw.ones((4, 2, IN), device=place)
    first, second = (layer(x)[0].detach().numpy() for _ in range(2))
    assert (first != second).any()
    layer.eval()
    first, second = (layer(x)[0].detach().numpy() for _ in range(2))
    assert (first == second).all()


def test_training_under_jit(gpu: GpuDevice) -> None:
    layers = [nn.LSTM(IN, SIZE).to(gpu) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    x = fw.ones((4, 2, IN), device=gpu)
    losses = []
    for layer, wrap in zip(layers, (fw.jit, lambda function: function)):
        optimizer = fw.optim.SGD(layer.parameters(), lr=0.1)

        def step(
            x: fw.Tensor, layer: Any = layer, optimizer: Any = optimizer
        ) -> fw.Tensor:
            optimizer.zero_grad()
            loss: fw.Tensor = layer(x)[0].square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run: Any = wrap(step)  # type: ignore[operator]  # two kinds of functions
        losses.append([run(x).item() for _ in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda nn: nn.LSTM(IN, SIZE, dropout=2.0), ValueError),
        (lambda nn: nn.GRU(IN, SIZE, proj_size=2), ValueError),
        (lambda nn: nn.LSTM(IN, SIZE, proj_size=SIZE), ValueError),
        (lambda nn: nn.LSTM(IN, 0), ValueError),
        (lambda nn: nn.RNN(IN, SIZE, nonlinearity="gelu"), ValueError),
        (lambda nn: nn.LSTM(2.5, SIZE), TypeError),
        (lambda nn: nn.LSTM(0, SIZE), ValueError),
        (lambda nn: nn.GRU(IN, SIZE, bias=1), TypeError),
        (lambda nn: nn.RNN(IN, SIZE, batch_first="no"), TypeError),
        (lambda nn: nn.RNN(IN, SIZE).double()(nn.Linear(IN, 4).weight), ValueError),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception]) -> None:
    for space in (nn, torch.nn):
        with pytest.raises(error):
            make(space)


@pytest.mark.parametrize("shape", [(4, 2, IN + 1), (4,), (0, 2, IN)])
def test_inputs_that_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises((RuntimeError, ValueError), match="LSTM: input is"):
        nn.LSTM(IN, SIZE)(fw.zeros(shape))
    with pytest.raises(RuntimeError, match=r"hx is \(1, 2, 7\); it must be"):
        nn.GRU(IN, SIZE)(fw.zeros((4, 2, IN)), fw.zeros((1, 2, 7)))


@pytest.mark.parametrize("kind", ["RNNBase", "RNN", "LSTM", "GRU"])
def test_signatures_are_pytorchs(kind: str) -> None:
    for method in ("__init__", "forward"):
        if (kind, method) == ("RNNBase", "forward"):
            continue
        ours, theirs = (
            inspect.signature(getattr(getattr(space, kind), method)).parameters
            for space in (nn, torch.nn)
        )
        assert [*ours] == [*theirs]
        if method == "__init__":
            assert [p.default for p in ours.values()] == [
                p.default for p in theirs.values()
            ]


def test_gru_promotes_under_autocast_for_the_host() -> None:
    """As in PyTorch, whose steps are made of ops there; it has one op on a device."""
    x = fw.ones(3, 2, 4)
    layer = fw.nn.GRU(4, 3)
    with fw.autocast("cpu", dtype=fw.bfloat16):
        assert [each.dtype for each in layer(x)] == [fw.float32] * 2
        assert [each.dtype for each in layer(x.bfloat16())] == [fw.bfloat16] * 2
        assert layer(x, fw.zeros(1, 2, 3, dtype=fw.bfloat16))[0].dtype is fw.bfloat16
    with fw.autocast("gpu", dtype=fw.bfloat16):
        assert layer(x)[0].dtype is fw.bfloat16
