"""Operations are counted as PyTorch counts them, forward and backward."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode as Expected

import vkbackend.framework as fw
from vkbackend.framework.utils.flop_counter import FlopCounterMode


def step(of: Any, device: Any) -> None:
    nn = of.nn
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ConvTranspose2d(4, 2, 3), nn.Flatten(),
        nn.Linear(50, 6), nn.ReLU(),
    ).to(device)  # fmt: skip
    x = of.ones(2, 2, 5, 5, requires_grad=True, device=device)
    model(x).sum().backward()
    a = of.ones(2, 3, 4, device=device)
    of.baddbmm(of.ones(2, 3, 5, device=device), a, of.ones(2, 4, 5, device=device))
    of.einsum("bij,bkj->bik", a, a)


def test_sums_are_pytorchs(gpu: Any) -> None:
    with FlopCounterMode(display=False) as found:
        for _ in range(3):
            step(fw, gpu)
    with Expected(display=False) as expected:
        for _ in range(3):
            step(torch, "cpu")
    assert found.get_total_flops() == expected.get_total_flops()
    for name in ("Sequential.0", "Sequential.1", "Sequential.3"):
        assert sum(found.get_flop_counts()[name].values()) == sum(
            expected.get_flop_counts()[name].values()
        )
    counts = found.get_flop_counts()["Sequential.0"]
    assert {*counts} <= {"convolution", "convolution_backward", "bmm"}


def test_modules_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    model = fw.nn.Sequential(fw.nn.Linear(2, 3), fw.nn.ReLU(), fw.nn.Linear(3, 1))
    with FlopCounterMode(depth=1) as counter:
        model(fw.ones(5, 2)).sum().backward()
        fw.ones(2, 2) @ fw.ones(2, 2)
    assert counter.get_flop_counts() == {
        "Global": {"bmm": 226},
        "Sequential": {"bmm": 210},
        "Sequential.0": {"bmm": 120},
        "Sequential.2": {"bmm": 90},
    }
    printed = capsys.readouterr().out
    assert "Sequential" in printed
    assert "Sequential.0" not in printed
    assert "Sequential.2" in counter.get_table(2)
    with FlopCounterMode(display=False, custom_mapping={"sum": lambda call, out: 7}):
        pass
    fw.ones(2, 2) @ fw.ones(2, 2)
    assert counter.get_total_flops() == 226


def test_attention(gpu: Any) -> None:
    q = fw.ones(1, 2, 3, 4, requires_grad=True, device=gpu)
    with FlopCounterMode(display=False) as counter:
        fw.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    product = 2 * 2 * 3 * 3 * 4
    assert counter.get_total_flops() in (7 * product, 6 * product)


@pytest.mark.device
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_count_their_products(kind: str, quick: Any) -> None:
    counts = []
    for place in ("cpu", quick):
        layer = getattr(fw.nn, kind)(3, 5).to(place)
        with FlopCounterMode(display=False) as counter:
            layer(fw.ones(4, 2, 3, device=place))[0].sum().backward()
        counts.append(counter.get_total_flops())
    # NumPy's steps on the host are not counted: those forward and back, the gates that
    # are computed anew, and the gradient of the weights.
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    assert counts[1] - counts[0] == 4 * (2 * 4 * 2 * 5 * 5 * gates)
