"""Groups, state, and what optimizers refuse."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import StateError


def leaf(value: float = 1.0) -> fw.Tensor:
    return fw.full(2, value, requires_grad=True)


def descend(optimizer: optim.Optimizer, *parameters: fw.Tensor) -> None:
    for parameter in parameters:
        parameter.grad = fw.ones_like(parameter.detach())
    optimizer.step()


def test_groups_have_options_of_their_own() -> None:
    fast, slow = leaf(), leaf()
    groups: list[dict[str, Any]] = [{"params": [fast], "lr": 0.5}, {"params": slow}]
    optimizer = optim.SGD(groups, lr=0.25)
    descend(optimizer, fast, slow)
    assert fast.tolist() == [0.5, 0.5]
    assert slow.tolist() == [0.75, 0.75]
    late = leaf()
    optimizer.add_param_group({"params": [late], "lr": 1.0})
    descend(optimizer, late)
    assert late.tolist() == [0.0, 0.0]


def test_changed_options_take_effect() -> None:
    x = leaf()
    optimizer = optim.SGD([x], lr=0.5)
    optimizer.param_groups[0]["lr"] = 0.125
    descend(optimizer, x)
    assert x.tolist() == [0.875, 0.875]


def test_the_step_is_not_recorded() -> None:
    layer = nn.Linear(2, 1)
    optimizer = optim.AdamW(layer.parameters())
    layer(fw.ones((1, 2))).sum().backward()
    optimizer.step()
    assert layer.weight.is_leaf
    assert layer.weight.requires_grad
    optimizer.zero_grad()
    assert layer.weight.grad is None


def test_without_gradients_nothing_happens() -> None:
    x = leaf()
    optim.SGD([x]).step()
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "options"), [(optim.Adam, {}), (optim.SGD, {"momentum": 0.9})]
)
def test_training_goes_on_from_a_saved_state(
    kind: Callable[..., optim.Optimizer], options: dict[str, Any], place: Device
) -> None:
    x = fw.ones(3, device=place, requires_grad=True)
    optimizer = kind([x], lr=0.1, **options)
    descend(optimizer, x)
    # On the host, wherever it was saved, to show that tensors move.
    y = fw.tensor(x, requires_grad=True)
    other = kind([y], lr=7.0)
    other.load_state_dict(optimizer.state_dict())
    for _ in range(2):
        descend(optimizer, x)
        descend(other, y)
    assert other.param_groups[0]["lr"] == 0.1
    assert_close(y, x.detach().numpy())


def test_a_loaded_state_is_a_copy() -> None:
    x, y = leaf(), leaf()
    optimizer, other = optim.Adam([x]), optim.Adam([y])
    descend(optimizer, x)
    state = optimizer.state_dict()
    other.load_state_dict(state)
    descend(other, y)
    assert state["state"][0]["step"] == 1
    assert_close(state["state"][0]["exp_avg"], np.full(2, 0.1, np.float32))


def test_state_numbers_count_through_the_groups() -> None:
    a, b, c = leaf(), leaf(), leaf()
    groups: list[dict[str, Any]] = [{"params": [a, b]}, {"params": [c], "lr": 0.5}]
    optimizer = optim.Adam(groups)
    descend(optimizer, c)
    state = optimizer.state_dict()
    assert list(state["state"]) == [2]
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert state["param_groups"][1]["lr"] == 0.5
    with pytest.raises(
        StateError, match=r"groups of \[2, 1\] parameters, the optimizer of \[2\]"
    ):
        optim.Adam([a, b]).load_state_dict(state)


def test_bad_arguments_are_named() -> None:
    x = leaf()
    with pytest.raises(ValueError, match="SGD: there are no parameters to optimize"):
        optim.SGD([])
    with pytest.raises(TypeError, match="SGD: str is no tensor"):
        optim.SGD(["weight"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="SGD: a tensor was given"):
        optim.SGD(x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="SGD: the parameters are a set"):
        optim.SGD([{"params": {x}}])
    with pytest.raises(TypeError, match="a list was given; it must be a dict"):
        optim.SGD([x]).add_param_group([x])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is no leaf: an operation computed it"):
        optim.SGD([x * 2])
    with pytest.raises(ValueError, match="some groups have names"):
        optim.SGD([x]).add_param_group({"params": [("y", leaf())]})
    with pytest.raises(ValueError, match="both must be numbers, or both tensors"):
        optim.Adam([x], betas=(0.9, fw.tensor(0.99)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Adafactor: eps is -1"):
        optim.Adafactor([x], eps=(-1.0, 1e-3))
    with pytest.raises(ValueError, match=r"of shape \(2,\) comes twice"):
        optim.SGD([x, x])
    with pytest.raises(ValueError, match="SGD: lr is -1"):
        optim.SGD([x], lr=-1)
    with pytest.raises(ValueError, match="1 of 2 parameters have names"):
        optim.SGD([("x", x), leaf()])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="differentiable is True"):
        optim.SGD([x], differentiable=True)
    with pytest.raises(NotImplementedError, match=r"Optimizer\.update"):
        descend(optim.Optimizer([x], {}), x)


class Training:
    """A layer that an optimizer trains on a device, step by step."""

    def __init__(self, gpu: GpuDevice, kind: Callable[..., Any], jitted: bool) -> None:
        fw.manual_seed(0)
        self.layer = nn.Linear(5, 3).to(gpu)
        self.optimizer = kind(self.layer.parameters())
        self.x = fw.tensor(np.arange(10, dtype=np.float32).reshape(2, 5), device=gpu)
        self.step = fw.jit(self._step) if jitted else self._step

    def _step(self) -> None:
        self.optimizer.zero_grad()
        self.layer(self.x).square().mean().backward()
        self.optimizer.step()

    def found(self) -> list[Any]:
        state = self.optimizer.state_dict()["state"]
        return [
            *[each.tolist() for each in self.layer.parameters()],
            *[
                each.tolist() if isinstance(each, fw.Tensor) else each
                for entry in state.values()
                for each in entry.values()
            ],
        ]


def momentum(params: Any) -> optim.SGD:
    return optim.SGD(params, lr=0.1, momentum=0.5)


STEPS = 6


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("kind", [optim.AdamW, momentum])
def test_a_failed_step_is_rolled_back(
    kind: Callable[..., Any],
    jitted: bool,
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one, which makes room for what is remembered, and later ones."""

    def fail(*_: object) -> None:
        raise MemoryError("none left")

    undisturbed = Training(gpu, kind, jitted)
    for _ in range(STEPS):
        undisturbed.step()
    for failing in range(STEPS):
        training = Training(gpu, kind, jitted)
        for number in range(STEPS):
            if number == failing:
                fw.eval()
                with monkeypatch.context() as patched:
                    # Where words are written and memory is there.
                    patched.setattr(vkbackend.Batch, "submit", fail)
                    patched.setattr(vkbackend.Recording, "submit", fail)
                    with pytest.raises(MemoryError):
                        training.step()
            training.step()
        assert training.found() == undisturbed.found(), failing


KEYWORDS = sorted(
    name
    for name in optim.__all__
    if inspect.isclass(getattr(optim, name))
    and issubclass(getattr(optim, name), optim.Optimizer)
    and name not in ("Optimizer", "LAMB", "Lion")
)


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_are_pytorchs(name: str) -> None:
    def arguments(module: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(module, name)).parameters.values()
        return [(each.name, each.default, each.kind) for each in found]

    assert arguments(optim) == arguments(torch.optim)


def test_a_closure_is_called_with_gradients() -> None:
    x = leaf()
    optimizer = optim.SGD([x], lr=0.5)

    def closure() -> fw.Tensor:
        optimizer.zero_grad()
        loss = x.square().sum()
        loss.backward()
        return loss

    with fw.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(x.numel())
    assert x.tolist() == [0.0] * x.numel()
    assert optimizer.step() is None


def test_hooks_of_steps() -> None:
    x = leaf()
    optimizer = optim.SGD([x])
    calls: list[str] = []
    before = optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda own, *_: calls.append(type(own).__name__))
    optimizer.step()
    before.remove()
    optimizer.step()
    assert calls == ["before", "SGD", "SGD"]


def test_groups_keep_names_and_options_of_users() -> None:
    x = leaf()
    optimizer = optim.SGD([("weight", x)], lr=0.5)  # type: ignore[list-item]
    assert optimizer.param_groups[0]["param_names"] == ["weight"]
    optimizer.add_param_group({"params": [("other", leaf())], "lr_scale": 0.1})
    assert optimizer.state_dict()["param_groups"][1]["lr_scale"] == 0.1


def test_text_is_as_in_torch() -> None:
    ours = optim.SGD([leaf()], lr=0.5)
    theirs = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.5)
    assert repr(ours) == repr(theirs)


def test_learning_rate_in_a_tensor() -> None:
    x = leaf()
    optimizer = optim.Adam([x], lr=fw.tensor(0.5))
    x.sum().backward()
    optimizer.step()
    np.testing.assert_allclose(x.detach().numpy(), 0.5, 1e-5)


@pytest.mark.parametrize("jitted", [False, True])
def test_frozen_parameters_are_left_and_may_thaw(jitted: bool, place: Device) -> None:
    """Whether gradients are required is seen at each step, as in PyTorch."""
    found = []
    for library, on in ((fw, place), (torch, "cpu")):
        layer = library.nn.Linear(2, 2)
        with library.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.zero_()
        layer = layer.to(on)
        layer.bias.requires_grad_(False)
        groups = [{"params": []}, {"params": layer.parameters()}]
        optimizer = library.optim.AdamW(groups, lr=0.1)
        x = library.ones(1, 2).to(on)

        def step(
            x: Any,
            layer: Any = layer,
            optimizer: Any = optimizer,
            library: Any = library,
        ) -> Any:
            optimizer.zero_grad()
            loss = (layer(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run: Any = fw.jit(step) if jitted and library is fw else step
        for bias, weight in ((False, True), (True, True), (True, False)):
            layer.bias.requires_grad_(bias)
            layer.weight.requires_grad_(weight)
            optimizer.zero_grad()
            for _ in range(3):
                run(x)
        found.append([each.detach().cpu().numpy() for each in layer.parameters()])
        assert sorted(optimizer.state_dict()["state"]) == [0, 1]
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, 1e-5)
