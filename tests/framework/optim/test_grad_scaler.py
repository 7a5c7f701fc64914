"""GradScaler against PyTorch's, and training in 16 bits with and without replay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from tests.interruption import Interrupter
from tests.tree import FOLDERS
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.base.errors import StateError

OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda library, params: library.SGD(params, lr=0.1),
    "momentum": lambda library, params: library.SGD(params, 0.1, 0.9),
    "Adam": lambda library, params: library.Adam(params, lr=0.05, weight_decay=0.1),
    "AdamW": lambda library, params: library.AdamW(params, lr=0.05),
    "groups": lambda library, params: library.AdamW(
        [{"params": [each], "lr": 0.1 / (k + 1)} for k, each in enumerate(params)]
    ),
}
OVERFLOWS = (0, 1, 5, 9)
"""Steps whose gradients are infinite; the first ones usually are."""


class Mine:
    """Two weights, an optimizer and a scaler of ours."""

    def __init__(self, weights: list[np.ndarray], name: str, place: Device) -> None:
        self.params = [
            fw.tensor(each, device=place, requires_grad=True) for each in weights
        ]
        self.optimizer = OPTIMIZERS[name](optim, self.params)
        self.scaler = fw.GradScaler(init_scale=1024.0, growth_interval=3)

    def step(self, x: fw.Tensor) -> fw.Tensor:
        self.optimizer.zero_grad()
        loss = (x @ self.params[0] @ self.params[1]).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


def batches(rng: np.random.Generator) -> list[np.ndarray]:
    found = [rng.normal(size=(5, 4)).astype(np.float32) for _ in range(14)]
    for k in OVERFLOWS:
        found[k][k % 5, k % 4] = np.inf if k % 2 else np.nan
    return found


@pytest.mark.parametrize("use_jit", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorch_s(
    name: str, use_jit: bool, place: Device, rng: np.random.Generator
) -> None:
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 2))]
    mine = Mine(weights, name, place)
    step: Any = fw.jit(mine.step) if use_jit else mine.step
    params = [torch.tensor(each, requires_grad=True) for each in weights]
    optimizer = OPTIMIZERS[name](torch.optim, params)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    for x in batches(rng):
        step(fw.tensor(x, device=place))
        optimizer.zero_grad()
        loss = (torch.tensor(x) @ params[0] @ params[1]).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert mine.scaler.get_scale() == scaler.get_scale()
    for found, expected in zip(mine.params, params):
        assert_close(found, expected.detach().numpy(), scale=8)
    assert mine.scaler.state_dict() == scaler.state_dict()
    ours, theirs = mine.optimizer.state_dict(), optimizer.state_dict()
    for k, state in theirs["state"].items():
        assert set(ours["state"].get(k, {})) <= set(state)
        assert ours["state"].get(k, {}).get("step") == state.get("step")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_replayed_step_is_the_plain_one(
    name: str, gpu: GpuDevice, rng: np.random.Generator
) -> None:
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 2))]
    plain, traced = Mine(weights, name, gpu), Mine(weights, name, gpu)
    step = fw.jit(traced.step)
    for k, x in enumerate(batches(rng)):
        if k == 7:
            for each in (plain, traced):
                each.optimizer.param_groups[0]["lr"] *= 0.5
        one, two = plain.step(fw.tensor(x, device=gpu)), step(fw.tensor(x, device=gpu))
        assert_close(two, one.detach().numpy(), exact=True)
    for mine, other in zip(plain.params, traced.params):
        assert_close(other, mine.detach().numpy(), exact=True)
    assert (step.traces, step.replays) == (2, 12)


def test_a_step_reads_nothing(gpu: GpuDevice, rng: np.random.Generator) -> None:
    mine = Mine([np.ones((4, 3), "f4"), np.ones((3, 2), "f4")], "AdamW", gpu)
    before = gpu.gpu.counters.snapshot()
    for x in batches(rng):
        mine.step(fw.tensor(x, device=gpu))
    assert (gpu.gpu.counters.snapshot() - before).host_reads == 0


def network(place: Device) -> nn.Module:
    fw.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(4 * 4 * 4, 16),
        nn.LayerNorm(16),
        nn.GELU(),
        nn.Linear(16, 10),
    ).to(place)


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy pictures of ten classes, and their labels."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 10, count).astype(np.int32)
    kinds = rng.normal(size=(10, 1, 8, 8))
    noise = rng.normal(size=(count, 1, 8, 8)) / 2
    return (kinds[labels] + noise).astype(np.float32), labels


def trained(
    place: Device, dtype: DType, use_jit: bool
) -> tuple[list[Any], list[float]]:
    """Return the state after some steps in 16 bits, and the losses."""
    model = network(place)
    x, y = images(32)
    trainer = optim.Trainer(
        optim.AdamW(model.parameters(), lr=0.02),
        max_norm=1.0,
        use_jit=use_jit,
        scaler=fw.GradScaler(init_scale=2.0**20, growth_interval=4),
    )

    def closure(images: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        with fw.autocast(dtype):
            scores = model(images)
            assert scores.dtype is dtype
            return nn.functional.cross_entropy(scores, labels)

    losses = []
    for _ in range(20):
        loss = trainer.train_step(closure, x, fw.tensor(y))
        assert loss.dtype is fw.float32
        losses.append(float(loss))
    for parameter in model.parameters():
        assert parameter.dtype is parameter.grad.dtype is fw.float32
    return [each.numpy() for each in model.state_dict().values()], losses


@pytest.mark.wide
@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [fw.float16, fw.bfloat16])
def test_training_in_16_bits(dtype: DType, gpu: GpuDevice) -> None:
    state, losses = trained(gpu, dtype, use_jit=False)
    assert losses[-1] < 0.3 * losses[0]
    # The scale begins too large for float16: the first steps change no weight there.
    assert (losses[2] > 0.95 * losses[0]) == (dtype is fw.float16)
    again, replayed = trained(gpu, dtype, use_jit=True)
    assert replayed == losses
    for one, other in zip(state, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_is_taken_over(place: Device) -> None:
    one, other = fw.GradScaler(init_scale=8.0), fw.GradScaler()
    x = fw.ones(2, device=place, requires_grad=True)
    for scaler in (one, other):
        optimizer = optim.SGD([x], lr=0.0)
        scaler.scale(x.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert one.state_dict()["_growth_tracker"] == 1
    fresh = fw.GradScaler(growth_factor=4.0)
    for each in (other, fresh):
        each.load_state_dict(one.state_dict())
        assert each.state_dict() == one.state_dict()
        assert each.scale(x.detach()).tolist() == [8, 8]
    one.update(32.0)
    assert one.get_scale() == 32


def test_what_is_not_enabled_does_nothing() -> None:
    x = fw.tensor([2.0], requires_grad=True)
    scaler, optimizer = fw.GradScaler(enabled=False), optim.SGD([x], lr=0.5)
    assert not scaler.is_enabled()
    loss = (x * 3).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert (x.tolist(), scaler.get_scale(), scaler.state_dict()) == ([0.5], 1, {})


def ready(dtype: str = "float32") -> tuple[fw.GradScaler, optim.Optimizer]:
    x = fw.ones(2, dtype=dtype, requires_grad=True)
    scaler = fw.GradScaler(init_scale=2.0)
    scaler.scale((x * x).sum()).backward()
    return scaler, optim.SGD([x], lr=0.1)


def unscale_twice() -> None:
    scaler, optimizer = ready()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def step_twice() -> None:
    scaler, optimizer = ready()
    scaler.step(optimizer)
    scaler.step(optimizer)


def update_too_early() -> None:
    ready()[0].update()


def no_gradient() -> None:
    fw.GradScaler().step(optim.SGD([fw.ones(2, requires_grad=True)]))


def half_gradient() -> None:
    scaler, optimizer = ready("float16")
    scaler.step(optimizer)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            unscale_twice,
            StateError,
            "GradScaler.unscale_: the gradients are unscaled already; call update()"
            " before the next step",
        ),
        (
            step_twice,
            StateError,
            "GradScaler.step: the optimizer has stepped already; call update() before"
            " the next step",
        ),
        (
            update_too_early,
            StateError,
            "GradScaler.update: no gradients were unscaled since the last update; call"
            " step() first",
        ),
        (
            lambda: fw.GradScaler().update(),
            StateError,
            "GradScaler.update: nothing was scaled; call scale() first",
        ),
        (
            no_gradient,
            StateError,
            "GradScaler.unscale_: no parameter has a gradient; call"
            " scale(loss).backward() first",
        ),
        (
            half_gradient,
            ValueError,
            "GradScaler.unscale_: a gradient is float16, which has no room for it; keep"
            " the parameters in float32 and compute under autocast",
        ),
        (
            lambda: fw.GradScaler().load_state_dict({}),
            StateError,
            "GradScaler.load_state_dict: the state is empty, of a scaler that is not"
            " enabled; load that of one that is",
        ),
        (
            lambda: fw.GradScaler(growth_factor=1),
            ValueError,
            "GradScaler: growth_factor is 1; it must be above 1, and a float32",
        ),
        (
            lambda: fw.GradScaler(backoff_factor=1.5),
            ValueError,
            "GradScaler: backoff_factor is 1.5; it must be above 0 and below 1",
        ),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text


def test_what_is_no_state_is_refused() -> None:
    scaler = fw.GradScaler()
    before = scaler.state_dict()
    for name in before:
        for wrong in ("2", None, True):
            with pytest.raises(StateError) as raised:
                scaler.load_state_dict({**before, name: wrong})
            assert str(raised.value) == (
                f"GradScaler.load_state_dict: {name} is {wrong!r};"
                " it must be a number, as state_dict() gives"
            )
    assert scaler.state_dict() == before


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("scale", (-5.0, 0, np.nan, np.inf, 1e39, 10**400)),
        ("growth_factor", (0.5, 1, np.nan, np.inf, 10**400)),
        ("backoff_factor", (7.0, 1, 0, -1.0, np.nan)),
        ("growth_interval", (0, -1, 1.5, np.nan, np.inf, 10**400)),
        ("_growth_tracker", (-1, 0.5, np.nan, np.inf, 10**400)),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, values: tuple[float, ...]) -> None:
    scaler = fw.GradScaler()
    before = scaler.state_dict()
    other = fw.GradScaler(growth_factor=3.0, growth_interval=7).state_dict()
    for wrong in values:
        with pytest.raises(ValueError, match=f"^GradScaler: {name} is "):
            scaler.load_state_dict({**other, name: wrong})
        assert scaler.state_dict() == before
        argument = "init_scale" if name == "scale" else name
        if name != "_growth_tracker":
            with pytest.raises(ValueError, match=f"^GradScaler: {argument} is"):
                fw.GradScaler(**{argument: wrong})
    with pytest.raises(ValueError, match=r"^GradScaler: new_scale is"):
        scaler.update(-5)


def test_numbers_of_numpy_are_taken() -> None:
    scaler = fw.GradScaler()
    numbers = {"scale": np.float32(8), "growth_interval": np.int64(5)}
    scaler.load_state_dict({**scaler.state_dict(), **numbers})
    assert (scaler.get_scale(), scaler.state_dict()["growth_interval"]) == (8, 5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_load_leaves_the_old_state_or_the_new(place: Device) -> None:
    scaler = fw.GradScaler(init_scale=2.0)
    scaler.scale(fw.ones(2, device=place))
    old = scaler.state_dict()
    new = {name: 3 if name == "_growth_tracker" else 0.25 for name in old}
    new.update(scale=8.0, growth_factor=4.0, growth_interval=5)
    seen = []
    for step in range(1, 2000, 5):
        scaler.load_state_dict(old)
        one = Interrupter(step, str(FOLDERS["vkbackend.framework"]))
        one.run(lambda: scaler.load_state_dict(new))
        seen.append(scaler.state_dict())
        assert seen[-1] in (old, new), one.where
        if not one.where:
            break
    assert seen[0] == old
    assert seen[-1] == new


def test_a_state_is_one_between_steps(gpu: GpuDevice) -> None:
    """Also where it is loaded in the middle of one, as after an interrupt."""
    w = fw.ones(2, device=gpu, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)
    scaler = fw.GradScaler(init_scale=4.0)
    state = scaler.state_dict()
    for _ in range(2):
        w.grad = None
        scaler.scale(w.sum()).backward()
        scaler.unscale_(optimizer)
        scaler.load_state_dict(state)
    w.grad = None
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.5, 0.5]


def test_a_step_to_skip_is_skipped_where_an_interrupt_ends_it(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = fw.ones(2, device=gpu, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)
    scaler = fw.GradScaler(init_scale=4.0)
    scaler.scale((w * float("inf")).sum()).backward()
    change = optimizer._update_parameters

    def interrupted() -> None:
        change()
        raise KeyboardInterrupt

    monkeypatch.setattr(optimizer, "_update_parameters", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scaler.step(optimizer)
    assert w.tolist() == [1.0, 1.0]


def test_a_scale_that_was_never_made_is_made_again(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = fw.GradScaler(init_scale=8.0)
    loss = fw.ones((), device=gpu)
    fw.eval()

    def failing(_: object) -> None:
        raise vkbackend.OutOfDeviceMemory("injected")

    with monkeypatch.context() as patched:
        patched.setattr(vkbackend.Batch, "submit", failing)
        scaled = scaler.scale(loss)
        with pytest.raises(MemoryError):
            fw.eval()
    assert scaler.get_scale() == 8.0
    assert scaler.state_dict()["_growth_tracker"] == 0
    assert scaler.scale(loss).item() == 8.0
    with pytest.raises(RuntimeError, match="injected"):
        scaled.item()


def test_what_scaling_takes_and_how_its_rule_is_set() -> None:
    found = []
    for library in (fw, torch):
        scaler = library.amp.GradScaler("cpu", init_scale=4.0)
        x = library.ones(2)
        pair = scaler.scale([x, (x, x * 2)])
        assert [type(pair), type(pair[1])] == [list, tuple]
        rest = [each.tolist() for each in scaler.scale(each for each in (x, x))]
        for bad in (3, [3]):
            with pytest.raises(ValueError, match="outputs"):
                scaler.scale(bad)
        scaler.set_growth_factor(3.0)
        scaler.set_backoff_factor(0.25)
        scaler.set_growth_interval(7)
        rule = scaler.get_growth_factor(), scaler.get_backoff_factor()
        rule = *rule, scaler.get_growth_interval(), scaler.state_dict()
        x.requires_grad_()
        scaler.scale(x.sum()).backward()
        with pytest.raises(RuntimeError):
            scaler.step(library.optim.SGD([x], lr=0.1), closure=lambda: 1)
        found.append((pair[0].tolist(), pair[1][1].tolist(), rest, rule))
    assert found[0] == found[1]
