"""What a module finds among its attributes, and what it does to all of it."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.nn.module import Module


class Block(Module):
    """A parameter, two buffers and a child that is also reached another way."""

    def __init__(self, shared: Module) -> None:
        super().__init__()
        self.scale = nn.Parameter(fw.ones(2))
        self.none: nn.Parameter | None = None
        self.register_buffer("mean", fw.zeros(2))
        self.register_buffer("scratch", fw.zeros(1), persistent=False)
        self.register_buffer("count", fw.zeros((), "int64"), on_host=True)
        self.register_buffer("absent", None)
        self.inner = shared

    def forward(self, x: fw.Tensor) -> Any:
        return self.inner(x * self.scale)


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.blocks = nn.ModuleList([Block(self.head), Block(nn.Linear(2, 3))])


def test_names_are_paths_in_order_each_once() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "head.weight",
        "head.bias",
        "blocks.0.scale",
        "blocks.1.scale",
        "blocks.1.inner.weight",
        "blocks.1.inner.bias",
    ]
    assert [name for name, _ in net.named_modules()] == [
        "",
        "head",
        "blocks",
        "blocks.0",
        "blocks.1",
        "blocks.1.inner",
    ]
    assert [name for name, _ in net.blocks[0].named_buffers("x")] == [
        "x.mean",
        "x.scratch",
        "x.count",
    ]
    assert len(list(net.parameters())) == 6
    assert len(list(net.buffers())) == 6
    assert list(net.children()) == [net.head, net.blocks]


def test_a_shared_parameter_comes_once_but_is_saved_under_each_name() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state)[:2] == ["head.weight", "head.bias"]
    assert "blocks.0.inner.weight" in state
    assert "blocks.0.scratch" not in state
    assert list(state)[2:5] == ["blocks.0.scale", "blocks.0.mean", "blocks.0.count"]


def test_state_round_trip() -> None:
    source, target = Net(), Net()
    result = target.load_state_dict(source.state_dict())
    assert result == ([], [])
    for name, tensor in target.state_dict().items():
        assert_close(tensor, source.state_dict()[name].numpy(), exact=True)


def test_state_follows_the_module() -> None:
    layer = nn.Linear(2, 1)
    state = layer.state_dict()
    nn.init.zeros_(layer.weight)
    assert not state["weight"].requires_grad
    assert state["weight"].tolist() == [[0.0, 0.0]]


def test_train_and_eval_reach_everything() -> None:
    net = Net()
    assert net.training
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_train_of_each_child_is_called() -> None:
    """As of a backbone that keeps its normalisation frozen."""

    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def train(self, mode: bool = True) -> "Frozen":
            super().train(mode)
            self.norm.eval()
            return self

    net = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([Frozen()])).train()
    training = {name: module.training for name, module in net.named_modules()}
    expected = {"": True, "0": True, "1": True, "1.0": True, "1.0.norm": False}
    assert training == expected
    assert not any(module.training for module in net.eval().modules())


def test_gradients_can_be_dropped_and_switched_off() -> None:
    layer = nn.Linear(2, 1)
    layer(fw.ones((1, 2))).sum().backward()
    assert layer.weight.grad is not None
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    layer.zero_grad()
    assert layer.weight.grad is None
    layer.requires_grad_(False)
    assert not layer(fw.ones((1, 2))).requires_grad


def test_apply_visits_children_first() -> None:
    seen: list[Module] = []
    net = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))
    assert net.apply(seen.append) is net
    assert [type(module).__name__ for module in seen] == [
        "ReLU",
        "Tanh",
        "Sequential",
        "Sequential",
    ]


def test_to_converts_floats_in_place() -> None:
    block = Block(nn.Linear(2, 2))
    scale = block.scale
    block(fw.ones((1, 2))).sum().backward()
    assert block.to("float64") is block
    assert block.scale is scale
    dtypes = {tensor.dtype for tensor in block.parameters()}
    assert dtypes == {fw.float64}
    assert scale.grad is not None
    assert scale.grad.dtype is fw.float64
    assert block.state_dict()["count"].dtype is fw.int64
    assert {t.dtype for t in block.to(dtype=fw.float32).parameters()} == {fw.float32}


@pytest.mark.core
def test_to_gpu_moves_everything_in_place(gpu: GpuDevice) -> None:
    net = Net()
    before = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    weight = net.head.weight
    net.head(fw.ones((1, 2))).sum().backward()
    assert net.to_gpu(gpu) is net
    assert net.head.weight is weight
    assert weight.grad is not None
    assert weight.grad.is_gpu
    assert all(parameter.device is gpu for parameter in net.parameters())
    places = {name: buffer.is_gpu for name, buffer in net.blocks[0].named_buffers()}
    assert places == {"mean": True, "scratch": True, "count": False}
    for name, tensor in net.state_dict().items():
        assert_close(tensor, before[name], exact=True)
    assert not any(t.is_gpu for t in net.cpu().parameters())
    assert all(t.is_gpu for t in net.to(device=gpu).parameters())


@pytest.mark.core
def test_a_state_loads_across_devices(gpu: GpuDevice) -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2).to(gpu)
    target.load_state_dict(source.state_dict())
    assert target.weight.is_gpu
    assert target.weight.requires_grad
    assert_close(target.weight, source.weight.detach().numpy(), exact=True)


def test_repr_is_pytorchs() -> None:
    ours = nn.Sequential(
        nn.Linear(2, 3, bias=False),
        nn.Sequential(nn.ReLU(), nn.Flatten()),
        nn.Identity(),
    )
    theirs = torch.nn.Sequential(
        torch.nn.Linear(2, 3, bias=False),
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten()),
        torch.nn.Identity(),
    )
    assert repr(ours) == repr(theirs)


def test_repr_of_a_module_with_arguments_and_children() -> None:
    class Named(Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def extra_repr(self) -> str:
            return "size=3"

    assert repr(Named()) == "Named(\n  size=3\n  (act): ReLU()\n)"


def test_forward_must_be_defined() -> None:
    with pytest.raises(
        NotImplementedError, match=r"Module\.forward: it is not defined"
    ):
        Module()(1)


def test_models_learn_alike_on_both_sides(rng: np.random.Generator) -> None:
    """A whole model against PyTorch: outputs, and gradients of every parameter."""
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3, padding=1),
        torch.nn.BatchNorm2d(3),
        torch.nn.LeakyReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(3 * 2 * 3, 5),
    )
    ours = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.LeakyReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3 * 2 * 3, 5),
    )
    ours.load_state_dict(
        {name: fw.tensor(t.numpy()) for name, t in theirs.state_dict().items()}
    )
    x = rng.normal(size=(7, 2, 4, 6)).astype(np.float32)
    labels = rng.integers(0, 5, 7)
    expected = theirs(torch.tensor(x))
    torch.nn.CrossEntropyLoss()(expected, torch.tensor(labels)).backward()
    found = ours(fw.tensor(x))
    nn.CrossEntropyLoss()(found, fw.tensor(labels)).backward()
    assert_close(found, expected.detach().numpy())
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        assert parameter.grad is not None
        assert_close(gradients[name], parameter.grad.numpy())
    for name, tensor in theirs.state_dict().items():
        assert_close(ours.state_dict()[name], tensor.numpy())
