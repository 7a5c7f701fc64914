"""Steps by kernels are those that the recorded ops make."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.hardware import skip_where_it_crashes
from tests.recurrent_cases import torch_lstm
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import recurrent
from vkbackend.framework.kernels.gemm.tiles import TENSOR_CORES
from vkbackend.framework.ops.recurrent import gru_steps, lstm_steps, rnn_steps
from vkbackend.framework.ops.recurrent.kernel_steps import by_kernel

pytestmark = pytest.mark.device

GATES = {"rnn": 1, "relu": 1, "gru": 3, "lstm": 4}
OPS: dict[str, Callable[..., Any]] = {
    "rnn": lambda mask, *given: rnn_steps(*given, mask, False),
    "relu": lambda mask, *given: rnn_steps(*given, mask, True),
    "gru": lambda mask, *given: gru_steps(*given, mask),
    "lstm": lambda mask, *given: lstm_steps(*given, None, mask),
}
SHAPES = (
    *((4, 3, 5), (5, 2, 64)),
    *(pytest.param(each, marks=pytest.mark.wide) for each in ((2, 20, 36), (3, 1, 1))),
)

WAYS: dict[str, dict[str, Any]] = {
    "launches": {"STEP_MICROSECONDS": 0.0, "STEP_PRODUCTS": float("inf")},
    "persistent": {"STEP_MICROSECONDS": 1e9, "OTHER_REGISTERS": 2000},
    "persistent rows": {
        "STEP_MICROSECONDS": 1e9,
        "PERSISTENT_ROWS": (4,),
        "OTHER_REGISTERS": 64,
    },
}
"""Settings that make each step a launch, or all of them one; with rows of several
sequences some weights of 64 LSTM units are in shared memory."""


def take(way: str, device: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps go one of `WAYS`; rows of several sequences add up by shuffles."""
    for name, value in WAYS[way].items():
        monkeypatch.setattr(recurrent, name, value)
    info = device.gpu.info
    shuffles = way == "persistent rows" and info.subgroup_shuffle
    target = dataclasses.replace(info.target, fast_shuffles=shuffles)
    monkeypatch.setitem(info.__dict__, "target", target)
    device.plans.clear()


def drawn(name: str, shape: tuple[int, ...], place: GpuDevice, dtype: str) -> list[Any]:
    """Return arguments of `OPS`, which require gradients."""
    rng = np.random.default_rng(0)
    steps, batch, units = shape
    gates = GATES[name] * units
    shapes = [(steps, batch, gates), (batch, units), (gates, units)]
    shapes[1:2] *= 1 + (name == "lstm")
    shapes += [(gates,)] if name == "gru" else []
    arrays = [rng.normal(size=each) for each in shapes]
    # As a layer's, so that states forget what was rounded.
    arrays[1 + (name == "lstm") + 1] /= units**0.5
    return [fw.tensor(each, dtype, place, requires_grad=True) for each in arrays]


def gradients(out: Any, given: Sequence[Any]) -> list[Any]:
    seed = np.random.default_rng(1).normal(size=tuple(out.shape))
    found = (out * fw.tensor(seed, out.dtype, out.device)).sum()
    return fw.autograd.grad(found, list(given))


def check_results(
    name: str, dtype: str, masked: bool, shape: tuple[int, ...], place: GpuDevice
) -> int:
    """Compare states and gradients with NumPy's; count dispatches of the former."""
    draws = np.random.default_rng(2).random((*shape[:2], 1)) > 0.4
    given = drawn(name, shape, place, dtype)
    exact = [each.detach().cpu().double().requires_grad_() for each in given]
    mask, host = [
        fw.tensor(draws, device=each.device) if masked else None
        for each in (given[0], exact[0])
    ]
    before = place.gpu.counters.dispatches
    out = OPS[name](mask, *given)
    fw.eval(out)
    dispatches = place.gpu.counters.dispatches - before
    expected = OPS[name](host, *exact)
    pairs = [(out, expected)]
    pairs += zip(gradients(out, given), gradients(expected, exact), strict=True)
    # Sums over all steps and sequences of states that are themselves rounded.
    scale = max(20, 2 * (shape[0] * shape[1]) ** 0.5)
    for found, wanted in pairs:
        like = found.detach().numpy().dtype
        assert_close(found, wanted.detach().numpy().astype(like), scale=scale)
    return dispatches


# The slope of a ReLU may be another one where sums are rounded.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((each, "float32") for each in GATES),
        *((each, "float16") for each in GATES if each != "relu"),
        *(
            pytest.param(each, "bfloat16", marks=pytest.mark.wide)
            for each in GATES
            if each != "relu"
        ),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_states_and_gradients(
    name: str,
    dtype: str,
    masked: bool,
    shape: tuple[int, ...],
    way: str,
    quick: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if dtype != "float32" and not quick.gpu.info.storage_16bit:
        pytest.skip("the device stores no 16-bit floats")
    take(way, quick, monkeypatch)
    launches = shape[0] if way == "launches" else 1
    # What makes numbers of the mask is one more.
    assert check_results(name, dtype, masked, shape, quick) == launches + masked


@pytest.fixture
def cores(quick: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device, whose tensor cores are emulated where it has none."""
    skip_where_it_crashes(quick.gpu.info)
    take("launches", quick, monkeypatch)
    monkeypatch.setattr(recurrent, "LEAST_PRODUCTS", 0)
    if recurrent.offers(quick.gpu.info, fw.float16, TENSOR_CORES):
        return quick
    # Other kernels go by the size that subgroups have.
    info = dataclasses.replace(quick.gpu.info, subgroup_size=32)
    tile, takes = recurrent.coopmat_tile, recurrent.on_tensor_cores
    monkeypatch.setattr(recurrent, "coopmat_tile", lambda _, *more: tile(info, *more))
    monkeypatch.setattr(
        recurrent, "on_tensor_cores", lambda _, *more: takes(info, *more)
    )
    defines = recurrent.storage_defines
    monkeypatch.setattr(
        recurrent, "storage_defines", lambda dtype: {**defines(dtype), "EMULATED": "1"}
    )
    monkeypatch.setattr(recurrent, "offers", lambda *_: True)
    # Four subgroups, for sums of eight would not fit in its shared memory.
    monkeypatch.setattr(recurrent, "WORKGROUP", 128)
    return quick


# Rows of the last tile are those of the one before, too; so are units.
@pytest.mark.parametrize(
    ("name", "dtype", "masked", "batch", "units"),
    [
        ("lstm", "float16", True, 37, 144),
        ("gru", "bfloat16", False, 7, 144),
        *(
            pytest.param(*each, marks=pytest.mark.gpu)
            for each in (
                ("lstm", "bfloat16", False, 37, 512),
                ("lstm", "float16", False, 1, 1024),
                ("gru", "float16", True, 64, 512),
                ("rnn", "float16", True, 100, 1008),
            )
        ),
    ],
)
def test_steps_on_tensor_cores(
    name: str, dtype: str, masked: bool, batch: int, units: int, cores: GpuDevice
) -> None:
    assert recurrent.on_tensor_cores(cores.gpu.info, getattr(fw, dtype), units)
    dispatches = check_results(name, dtype, masked, (3, batch, units), cores)
    assert dispatches == 3 + masked


def test_recorded_gradients_are_differentiable(quick: GpuDevice) -> None:
    given = drawn("lstm", (3, 2, 5), quick, "float32")
    out = OPS["lstm"](None, *given)
    (first,) = fw.autograd.grad((out * out).sum(), given[:1], create_graph=True)
    (second,) = fw.autograd.grad((first * first).sum(), given[:1])
    exact = [torch.tensor(each.detach().numpy(), requires_grad=True) for each in given]
    out = torch_lstm(*exact)
    (first,) = torch.autograd.grad((out * out).sum(), exact[:1], create_graph=True)
    (twice,) = torch.autograd.grad((first * first).sum(), exact[:1])
    assert_close(second, twice.numpy(), scale=1000)


def test_who_takes_the_steps(quick: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    gates, h0, *_ = [
        each.detach() for each in drawn("rnn", (3, 2, 5), quick, "float32")
    ]
    assert not by_kernel(gates, h0)
    with fw.no_grad():
        assert by_kernel(gates, h0)
        assert not by_kernel(gates.cpu(), h0.cpu())
        assert not by_kernel(gates[:, :0], h0[:0])
        taken = []
        fw.func.vmap(lambda x: (taken.append(by_kernel(x, h0)), x)[1])(gates[None])
        assert taken == [False]
        monkeypatch.setattr(recurrent, "LARGEST", 0)
        assert not by_kernel(gates, h0)


def test_layers_of_many_steps_and_packed_sequences(quick: GpuDevice) -> None:
    fw.manual_seed(0)
    layer = nn.LSTM(3, 8, 2, bidirectional=True)
    twin = torch.nn.LSTM(3, 8, 2, bidirectional=True)
    twin.load_state_dict(
        {key: torch.tensor(each.numpy()) for key, each in layer.state_dict().items()}
    )
    layer = layer.to(quick)
    x = np.random.default_rng(0).normal(size=(300, 4, 3)).astype("float32")
    with fw.no_grad():
        out, _ = layer(fw.tensor(x, device=quick))
    with torch.no_grad():
        expected, _ = twin(torch.tensor(x))
    assert_close(out, expected.numpy(), scale=100)
    lengths = [7, 5, 5, 1]
    packed = nn.utils.rnn.pack_padded_sequence(
        fw.tensor(x[:7], device=quick), fw.tensor(lengths)
    )
    out, (hidden, cells) = layer(packed)
    wanted, states = twin(
        torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x[:7]), lengths)
    )
    found = [out.data, hidden, cells]
    for each, right in zip(found, (wanted.data, *states), strict=True):
        assert_close(each, right.detach().numpy(), scale=50)


def test_recorded_steps_of_training_learn(quick: GpuDevice) -> None:
    fw.manual_seed(0)
    layer = nn.GRU(2, 6).to(quick)
    head = nn.Linear(6, 1).to(quick)
    optimizer = fw.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.02)
    x = fw.randn(6, 8, 2, device=quick)
    y = x.sum(0)[:, :1]

    @fw.jit
    def step() -> fw.Tensor:
        optimizer.zero_grad()
        loss = ((head(layer(x)[0][-1]) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
