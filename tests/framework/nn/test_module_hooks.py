"""Module hooks: their order and arguments, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.nn import module_hooks

Log = list[Any]


def told(value: Any) -> Any:
    """Return what is compared of an argument of a hook."""
    if isinstance(value, tuple):
        return tuple([told(each) for each in value])
    return value.tolist() if hasattr(value, "tolist") else value


def make(space: Any, library: Any) -> tuple[Any, Any]:
    """Return a model that computes 2 x + y, and x."""

    class Model(space.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: float = 0.0) -> Any:
            if y < 0:
                raise ValueError("negative")
            return x * 2 + y

    x = library.tensor([1.0, 2.0], requires_grad=True)
    return Model(), x


def forward_hooks(m: Any, x: Any, log: Log) -> Any:
    m.register_forward_pre_hook(lambda m, a: log.append(("pre", told(a))))
    m.register_forward_pre_hook(lambda m, a: a[0] + 1)
    m.register_forward_pre_hook(
        lambda m, a, k: (a, {"y": k["y"] + 10}), prepend=True, with_kwargs=True
    )
    m.register_forward_hook(lambda m, a, out: log.append(("out", told(a), told(out))))
    m.register_forward_hook(
        lambda m, a, k, out: log.append((told(a), k)), with_kwargs=True, prepend=True
    )
    m.register_forward_hook(lambda m, a, out: out * 3)
    return m(x, y=1.0)


def removed_hooks(m: Any, x: Any, log: Log) -> Any:
    handle = m.register_forward_hook(lambda m, a, out: out * 3)
    with m.register_forward_hook(lambda m, a, out: out * 5):
        log.append(m(x).tolist())
    log.append(m(x).tolist())
    handle.remove()
    handle.remove()
    log.append(len(m._forward_hooks))
    return m(x)


def hooks_after_errors(m: Any, x: Any, log: Log) -> Any:
    m.register_forward_hook(lambda m, a, out: log.append(told(out)), always_call=True)
    m.register_forward_hook(lambda m, a, out: log.append("not called"))
    try:
        m(x, -1.0)
    except ValueError as error:
        log.append(str(error))
    return x * 1


def backward_hooks(m: Any, x: Any, log: Log) -> Any:
    m.register_full_backward_pre_hook(lambda m, g: log.append(("pre", told(g))))
    m.register_full_backward_pre_hook(lambda m, g: (g[0] * 3,))
    m.register_full_backward_hook(lambda m, i, o: log.append((told(i), told(o))))
    m.register_full_backward_hook(lambda m, i, o: (i[0] + 1, *i[1:]))
    return m(x, 2.0)


def backward_hooks_of_constants(m: Any, x: Any, log: Log) -> Any:
    inner = torch.nn.Linear if isinstance(x, torch.Tensor) else nn.Linear
    layer: Any = inner(2, 1, bias=False)
    layer.load_state_dict({"weight": x.detach().reshape(1, 2)})
    layer.register_full_backward_hook(lambda m, i, o: log.append((told(i), told(o))))
    return layer(x.detach()) * x


def wrong_answer(m: Any, x: Any, log: Log) -> Any:
    m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    try:
        m(x)
    except RuntimeError:
        log.append("RuntimeError")
    return x * 1


USES: list[Callable[[Any, Any, Log], Any]] = [
    forward_hooks,
    removed_hooks,
    hooks_after_errors,
    backward_hooks,
    backward_hooks_of_constants,
    wrong_answer,
]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("use", USES)
def test_hooks_are_pytorchs(use: Callable[[Any, Any, Log], Any]) -> None:
    answers = []
    for space, library in ((nn, fw), (torch.nn, torch)):
        log: Log = []
        model, x = make(space, library)
        out = use(model, x, log)
        out.sum().backward()
        answers.append([out.tolist(), x.grad.tolist(), log])
    assert answers[0] == answers[1]


def test_hooks_of_all_modules() -> None:
    log: Log = []
    handle = module_hooks.register_module_forward_hook(
        lambda m, a, out: log.append(type(m).__name__)
    )
    nn.Sequential(nn.ReLU(), nn.Tanh())(fw.zeros(1))
    handle.remove()
    nn.ReLU()(fw.zeros(1))
    assert log == ["ReLU", "Tanh", "Sequential"]
    assert not module_hooks.global_hooks()


def test_jit_sees_hooks_come_and_go(gpu: GpuDevice) -> None:
    model = nn.Sequential(nn.ReLU()).to(gpu)
    function = fw.jit(lambda x: model(x) + 1)
    x = fw.tensor([1.0, -1.0], device=gpu)
    answers = [function(x).tolist() for _ in range(3)]
    handle = model[0].register_forward_hook(lambda m, a, out: out * 5)
    answers += [function(x).tolist() for _ in range(3)]
    handle.remove()
    answers += [function(x).tolist() for _ in range(2)]
    assert answers == [[2.0, 1.0]] * 3 + [[6.0, 1.0]] * 3 + [[2.0, 1.0]] * 2


def test_compile_replays_the_module(gpu: GpuDevice) -> None:
    model = nn.Linear(2, 3).to(gpu)
    x = fw.ones((1, 2), device=gpu)
    with fw.no_grad():
        expected = model(x).tolist()
        model.compile()
        assert [model(x).tolist() for _ in range(3)] == [expected] * 3
        model.weight.zero_()
        assert model(x).tolist() == [model.bias.tolist()]


def test_state_hooks_are_pytorchs() -> None:
    def use(space: Any, library: Any) -> Log:
        log: Log = []
        m = space.Sequential(space.Linear(1, 1, bias=False))
        layer = m[0]
        layer.register_state_dict_pre_hook(lambda m, p, k: log.append((p, k)))
        layer.register_state_dict_post_hook(
            lambda m, s, p, meta: s.update({p + "more": 1})
        )
        m._register_state_dict_hook(
            lambda m, s, p, meta: type(s)((k.upper(), v) for k, v in s.items())
        )
        log.append(list(m.state_dict()))
        layer._register_load_state_dict_pre_hook(
            lambda s, p, *rest: s.update({p + "weight": s.pop(p + "w")})
        )
        layer.register_load_state_dict_post_hook(
            lambda m, keys: log.append(
                [m.weight.tolist(), [*keys.missing_keys], [*keys.unexpected_keys]]
            )
        )
        m.register_load_state_dict_post_hook(lambda m, k: k.unexpected_keys.clear())
        answer = m.load_state_dict({"0.w": library.ones((1, 1)), "x": 3})
        return [*log, answer.unexpected_keys]

    assert use(nn, fw) == use(torch.nn, torch)
