"""Guards: no replay runs on captured state that has changed."""

import copy
import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.training import Training, same, tensor
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import GradError, TraceError
from vkbackend.framework.jit.guard_sources import MAX_CONTAINER_ELEMENTS
from vkbackend.framework.jit.guards import Guards
from vkbackend.framework.jit.trace_cache import MAX_TRACE_ATTEMPTS

pytestmark = pytest.mark.core

FACTOR = 2.0
OPTIONS = SimpleNamespace(rate=0.5, label="a", inner=[1])


def helper(x: float) -> float:
    return x * FACTOR


def uses_helper(x: float) -> float:
    return helper(x) + (lambda: OPTIONS.rate)()


def test_nothing_changed() -> None:
    guards = Guards(uses_helper)
    assert not guards.changed()


def test_globals_of_helpers_count(monkeypatch: Any) -> None:
    guards = Guards(uses_helper)
    monkeypatch.setitem(globals(), "FACTOR", 2.0 + 0)
    assert not guards.changed()
    monkeypatch.setitem(globals(), "FACTOR", 2)
    assert guards.changed()


def test_a_replaced_helper_counts(monkeypatch: Any) -> None:
    guards = Guards(uses_helper)
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert guards.changed()


def test_attributes_of_plain_objects_count(monkeypatch: Any) -> None:
    guards = Guards(uses_helper)
    OPTIONS.inner.append(2)
    assert not guards.changed()
    monkeypatch.setattr(OPTIONS, "rate", 0.25)
    assert guards.changed()


def test_closures_count() -> None:
    scale: Any = 1.0

    def scaled(x: float) -> Any:
        return x * scale

    guards = Guards(scaled)
    assert not guards.changed()
    scale = 3.0
    assert guards.changed()


def test_methods_and_added_sources_count() -> None:
    class Owner:
        factor = 1.0

        def __init__(self) -> None:
            self.offset = 1.0

        def run(self) -> float:
            return self.offset

    owner, extra = Owner(), {"a": 1}
    guards = Guards(owner.run)
    guards.add(extra, "a")
    assert not guards.changed()
    extra["a"] = 2
    assert guards.changed()
    extra["a"] = 1
    owner.offset = 2.0
    assert guards.changed()


class Inner:
    rate = 1.0
    unnamed = 1.0

    def __init__(self) -> None:
        self.steps = 0
        self.scales = [1.0, 2.0]
        self.options = {"a": 1.0}
        self.deeper = SimpleNamespace(gain=1.0)

    def __call__(self, x: float) -> float:
        return x * self.scales[0] * self.options["a"] * self.gain * FACTOR

    @property
    def gain(self) -> float:
        return self.deeper.gain * self.rate


def test_what_objects_and_containers_hold_counts(monkeypatch: Any) -> None:
    inner = Inner()

    def use(x: float) -> float:
        return inner(x)

    changes: list[Callable[[], object]] = [
        lambda: inner.scales.append(3.0),
        lambda: inner.scales.__setitem__(0, -0.0),
        lambda: inner.options.update(b=1.0),
        lambda: inner.options.update(a=2.0),
        lambda: setattr(inner.deeper, "gain", 2.0),
        lambda: monkeypatch.setattr(Inner, "rate", 2.0),
        lambda: monkeypatch.setitem(globals(), "FACTOR", 5.0),
        lambda: monkeypatch.setattr(Inner, "__call__", lambda self, x: x),
    ]
    for number, change in enumerate(changes):
        guards = Guards(use)
        inner.steps += 1
        monkeypatch.setattr(Inner, "unnamed", 2.0 + inner.steps)
        assert not guards.changed()
        change()
        assert guards.changed(), number


def test_attributes_count_where_code_names_them() -> None:
    """A counter called as a method that is used of another object does not."""

    class Owner:
        def __init__(self) -> None:
            self.step = 0
            self.rates = SimpleNamespace(first=1.0, second=1.0)

        def train(self, optimizer: Any) -> float:
            counted = [(lambda: self.rates.first)() for _ in range(2)]
            optimizer.zero_grad()
            return counted[0]

    owner = Owner()
    optimizer = SimpleNamespace(step=print, zero_grad=print)

    def use() -> None:
        owner.train(optimizer)
        optimizer.step()

    guards = Guards(use)
    owner.step = 1
    assert not guards.changed()
    owner.rates.second = 2.0
    assert not guards.changed()
    owner.rates.first = 2.0
    assert guards.changed()
    assert guards.failed_guard() == "`first`"


def test_globals_that_are_named_like_attributes_do_not_count(monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "rate", 0)
    guards = Guards(uses_helper)
    monkeypatch.setitem(globals(), "rate", 1)
    assert not guards.changed()


def test_attributes_of_python_modules_count() -> None:
    settings = ModuleType("settings")
    settings.rate = 1.0  # type: ignore[attr-defined]  # a module made here

    def use(x: float) -> Any:
        return x * settings.rate + math.pi

    guards = Guards(use)
    assert not guards.changed()
    settings.rate = 2.0  # type: ignore[attr-defined]  # a module made here
    assert guards.changed()


def test_long_containers_count_up_to_a_length() -> None:
    samples = list(range(500))

    def use() -> int:
        return samples[0]

    guards = Guards(use)
    assert not guards.changed()
    samples[0] = 5
    assert guards.changed()
    samples.extend(range(MAX_CONTAINER_ELEMENTS))
    assert f"looks at a list of {len(samples)}" in Guards(use).reason


def test_signs_of_zero_and_nan() -> None:
    number = float("nan")

    def use() -> float:
        return number

    guards = Guards(use)
    number = float("nan")
    assert not guards.changed()
    number = 0.0
    guards = Guards(use)
    number = -0.0
    assert guards.changed()


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        return helper(x)


def test_globals_that_modules_name_count(gpu: GpuDevice, monkeypatch: Any) -> None:
    model = nn.Sequential(Scaled(), nn.ReLU())
    for run in (fw.jit(model), fw.jit(lambda x: model(x))):
        monkeypatch.setitem(globals(), "FACTOR", 2.0)
        x = tensor(gpu, [1.0])
        assert [float(run(x)) for _ in range(2)] == [2, 2]
        monkeypatch.setitem(globals(), "FACTOR", 5.0)
        assert [float(run(x)) for _ in range(2)] == [5, 5]
        assert (run.traces, run.replays) == (2, 2)


@pytest.mark.parametrize("kind", [fw.Tensor, nn.Parameter])
def test_what_requires_a_gradient_and_has_hooks_counts(
    kind: Any, gpu: GpuDevice
) -> None:
    first, second = (tensor(gpu, [2.0], requires_grad=True) for _ in range(2))
    if kind is nn.Parameter:
        first, second = nn.Parameter(first), nn.Parameter(second)

    @fw.jit
    def step(x: fw.Tensor) -> None:
        (first * second * x).sum().backward()

    def gradients() -> list[Any]:
        grads = []
        for _ in range(2):
            first.grad = second.grad = None
            step(tensor(gpu, [3.0]))
            grads = [each.grad and float(each.grad) for each in (first, second)]
        return grads

    assert gradients() == [6, 6]
    first.requires_grad = False
    assert gradients() == [None, 6]
    first.requires_grad = True
    assert gradients() == [6, 6]
    second.register_hook(lambda grad: grad * 2)
    assert gradients() == [6, 12]
    assert (step.traces, step.replays) == (4, 4)


def test_a_saved_tensor_that_a_replay_changes_is_noticed(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0, 2.0], requires_grad=True)

    @fw.jit
    def step(x: fw.Tensor) -> None:
        with fw.no_grad():
            w.add_(x)

    x = tensor(gpu, [1.0, 1.0])
    step(x)
    saved = (w * w).sum()
    step(x)
    assert step.replays == 1
    with pytest.raises(GradError, match="changed in place"):
        saved.backward()
    assert w.tolist() == [3.0, 4.0]


def test_what_shares_elements_keeps_them(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0])
    step = fw.jit(lambda: w.add_(1).sum())
    step()
    twins = []
    for _ in range(5):
        twins.append(copy.deepcopy(w))
        step()
    assert [float(twin) for twin in twins] == [2, 3, 4, 5, 6]
    assert float(w) == 7
    assert step.traces == 1


def test_shared_elements_part_when_they_change(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0])
    teacher = copy.deepcopy(w)

    @fw.jit
    def step() -> fw.Tensor:
        w.add_(teacher)
        return w + teacher

    assert [float(step()) for _ in range(4)] == [3, 4, 5, 6]
    assert float(teacher) == 1
    assert step.replays == 2


def test_changes_outside_are_seen(gpu: GpuDevice) -> None:
    w, kept = tensor(gpu, [1.0]), tensor(gpu, [10.0])
    step = fw.jit(lambda: w.add_(kept).sum())
    assert [float(step()), float(step())] == [11.0, 21.0]
    w.copy_(tensor(gpu, [0.0]))
    assert float(step()) == 10.0
    kept.mul_(2)
    assert float(step()) == 30.0
    assert float(step()) == 50.0
    w.copy_(kept)
    assert float(step()) == 40.0
    assert float(kept) == 20.0


def test_storages_may_exchange_their_elements(gpu: GpuDevice) -> None:
    a, b = tensor(gpu, [1.0]), tensor(gpu, [2.0])

    @fw.jit
    def swap() -> None:
        before = a.clone()
        a.copy_(b)
        b.copy_(before)

    for k in range(6):
        swap()
        assert [float(a), float(b)] == ([2, 1] if k % 2 == 0 else [1, 2])


def test_numbers_around_it_count(gpu: GpuDevice) -> None:
    scale = 2.0
    offset = [1.0]

    def step(x: fw.Tensor) -> fw.Tensor:
        return x * scale + offset[0]

    replay = fw.jit(step)
    x = tensor(gpu, 3.0)
    assert float(replay(x)) == 7
    scale = 5.0
    assert [float(replay(x)), float(replay(x))] == [16, 16]
    assert (replay.traces, replay.replays) == (2, 1)


def test_the_structure_of_modules_counts(gpu: GpuDevice) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(gpu)
    run = fw.jit(lambda x: model(x))
    x = tensor(gpu, np.ones((4, 3)))

    def check() -> None:
        for _ in range(2):
            state = fw.get_rng_state()
            found = run(x).numpy()
            fw.set_rng_state(state)
            np.testing.assert_array_equal(found, model(x).numpy())

    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: model.eval(),
        lambda: model.train(),
        lambda: setattr(model[1], "p", 0.1),
        lambda: setattr(model[0], "weight", nn.Parameter(tensor(gpu, np.eye(3)))),
        lambda: setattr(model[0], "bias", None),
        lambda: model.append(nn.Linear(3, 2).to(gpu)),
    ]
    with fw.no_grad():
        for k, change in enumerate(changes):
            change()
            check()
            assert run.traces == k + 1
        # Other values of the same parameters are read where they are.
        model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
        model[0].weight.mul_(3)
        check()
        assert run.traces == len(changes)


def test_options_other_than_rate_and_momentum_trace_again(gpu: GpuDevice) -> None:
    one, other = (Training(gpu, "AdamW", jitted) for jitted in (True, False))
    for each in (one, other):
        fw.manual_seed(9)
        for k in range(7):
            if k == 3:
                each.optimizer.param_groups[0]["lr"] = 0.5
            if k == 4:
                each.optimizer.param_groups[0]["betas"] = (0.5, 0.7)
            if k == 5:
                each.optimizer.param_groups[0]["eps"] = 1e-3
            each.step(*each.batch())
    same(one, other)
    assert one.step.traces == 3


def test_other_groups_of_an_optimizer_trace_again(gpu: GpuDevice) -> None:
    def trained(wrap: Callable[[Any], Any]) -> list[Any]:
        weights = [nn.Parameter(fw.ones(1, device=gpu)) for _ in range(2)]
        optimizer = optim.SGD(weights, lr=0.5)

        def function(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = (x * weights[0] * weights[1]).sum()
            loss.backward()
            optimizer.step()
            return loss

        step, found = wrap(function), []
        for k in range(12):
            step(fw.full((1,), 0.1, device=gpu))
            found += [each.tolist() for each in weights]
            if k == 2:
                optimizer.param_groups = [dict(optimizer.param_groups[0], lr=0.25)]
            if k == 5:
                optimizer.param_groups[0] = dict(optimizer.param_groups[0], lr=0.125)
            if k == 8:
                optimizer.param_groups[0]["params"].pop()
        return found

    assert trained(fw.jit) == trained(lambda function: function)


def test_steps_in_turn_with_and_without_and_of_two_sizes(gpu: GpuDevice) -> None:
    one, other = (Training(gpu, "AdamW", jitted) for jitted in (True, False))
    for each in (one, other):
        fw.manual_seed(9)
        for k in range(12):
            if k == 5:
                each.optimizer.load_state_dict(
                    copy.deepcopy(each.optimizer.state_dict())
                )
            step = each._step if k in (3, 7) else each.step
            step(*each.batch(13 if k % 2 else 6))
    same(one, other)
    assert one.step.replays >= 4


def test_gradients_add_up_over_calls(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0, 2.0], requires_grad=True)

    def add(x: fw.Tensor) -> None:
        (w * x).sum().backward()

    replay = fw.jit(add)
    x = tensor(gpu, [1.0, 3.0])
    for k in range(1, 6):
        replay(x)
        assert w.grad.tolist() == [k, 3 * k]
    w.grad = None
    replay(x)
    assert w.grad.tolist() == [1, 3]


def test_gradients_dropped_outside_or_at_the_end(gpu: GpuDevice) -> None:
    w = tensor(gpu, [1.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=1.0)

    def step(x: fw.Tensor) -> None:
        (w * x).sum().backward()
        optimizer.step()

    def step_and_drop(x: fw.Tensor) -> None:
        step(x)
        optimizer.zero_grad()

    for function, drops in ((step, True), (step_and_drop, False)):
        w.detach().copy_(tensor(gpu, [1.0]))
        replay = fw.jit(function)
        for _ in range(4):
            if drops:
                optimizer.zero_grad()
            replay(tensor(gpu, [1.0]))
        assert float(w) == -3.0
        assert replay.replays == 3
        optimizer.zero_grad()


def test_what_happens_once_is_not_kept(gpu: GpuDevice) -> None:
    state: dict[str, fw.Tensor] = {}

    class Own(optim.SGD):
        replayable = False

    w = tensor(gpu, [1.0], requires_grad=True)
    optimizer = Own([w], lr=1.0)

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        state["last"] = x + 1
        return x * 2

    x = tensor(gpu, [1.0])
    for k in range(MAX_TRACE_ATTEMPTS + 2):
        if k == MAX_TRACE_ATTEMPTS - 1:
            text = "Own does not say that it can"
            with pytest.warns(UserWarning, match=text) as said:
                assert float(step(x)) == 2.0
            assert said[0].filename == __file__
        else:
            assert float(step(x)) == 2.0
    assert float(w) == 1.0 - (MAX_TRACE_ATTEMPTS + 2)
    assert (step.traces, step.replays) == (MAX_TRACE_ATTEMPTS, 0)


def test_arguments_on_the_host_are_seen_by_each_call(gpu: GpuDevice) -> None:
    total = fw.zeros(2)

    def step(x: Any) -> fw.Tensor:
        return fw.zeros(2, device=gpu) + fw.as_tensor(x).to(gpu)

    for make, text in (
        (lambda k: fw.full((2,), k), "argument 0 is on the host"),
        (lambda k: np.full(2, k, np.float32), "argument 0 is a NumPy array"),
    ):
        run = fw.jit(step)
        with pytest.warns(UserWarning, match=text):
            found = [run(make(float(k))).tolist() for k in range(6)]
        assert found == [[k, k] for k in range(6)]
    both = fw.jit(lambda x: (total.add_(1), x + 1))
    with pytest.warns(UserWarning, match="on the host is changed in place"):
        runs = [both(tensor(gpu, [1.0]))[1].item() for _ in range(6)]
    assert (runs, total.tolist()) == ([2] * 6, [6, 6])


def test_arguments_that_no_replay_can_take_are_refused(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: x + 1)
    x = tensor(gpu, [1.0], requires_grad=True)
    with pytest.raises(TraceError, match="argument 0 is a result that requires"):
        step(x * 2)
    change = fw.jit(lambda x: x.add_(1))
    with pytest.raises(TraceError, match="argument is changed in place"):
        change(tensor(gpu, [1.0]))
