"""Registration of attributes, and paths, beside PyTorch's."""

import copy
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


class Ours(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("none", None)
        self.weight = nn.Parameter(fw.ones(2))
        self.register_buffer("mean", fw.zeros(2))
        self.register_buffer("scratch", None, persistent=False)
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.plain = fw.zeros(1)
        self.number = 3


class Theirs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("none", None)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("scratch", None, persistent=False)
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        self.plain = torch.zeros(1)
        self.number = 3


CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tensor for parameter": lambda m, nn, fw: setattr(m, "weight", fw.zeros(2)),
    "number for parameter": lambda m, nn, fw: setattr(m, "weight", 3),
    "none for parameter": lambda m, nn, fw: setattr(m, "weight", None),
    "parameter for none": lambda m, nn, fw: setattr(
        m, "none", nn.Parameter(fw.zeros(2))
    ),
    "tensor for none": lambda m, nn, fw: setattr(m, "none", fw.zeros(2)),
    "tensor for buffer": lambda m, nn, fw: setattr(m, "mean", fw.zeros(3)),
    "number for buffer": lambda m, nn, fw: setattr(m, "mean", 3),
    "parameter for buffer": lambda m, nn, fw: setattr(
        m, "mean", nn.Parameter(fw.zeros(2))
    ),
    "buffer for plain": lambda m, nn, fw: setattr(m, "plain", nn.Buffer(fw.zeros(2))),
    "parameter for plain": lambda m, nn, fw: setattr(
        m, "plain", nn.Parameter(fw.zeros(2))
    ),
    "passing buffer": lambda m, nn, fw: setattr(
        m, "new", nn.Buffer(fw.zeros(2), persistent=False)
    ),
    "tensor for module": lambda m, nn, fw: setattr(m, "inner", fw.zeros(3)),
    "module for module": lambda m, nn, fw: setattr(m, "inner", nn.ReLU()),
    "module for parameter": lambda m, nn, fw: setattr(m, "weight", nn.ReLU()),
    "module for plain": lambda m, nn, fw: setattr(m, "number", nn.ReLU()),
    "delete parameter": lambda m, nn, fw: delattr(m, "weight"),
    "delete module": lambda m, nn, fw: delattr(m, "inner"),
    "delete nothing": lambda m, nn, fw: delattr(m, "absent"),
    "read nothing": lambda m, nn, fw: m.absent,
    "taken name": lambda m, nn, fw: m.register_buffer("number", fw.zeros(1)),
    "name of a method": lambda m, nn, fw: m.register_buffer("forward", fw.zeros(1)),
    "dot": lambda m, nn, fw: m.register_parameter("a.b", None),
    "empty name": lambda m, nn, fw: m.add_module("", nn.ReLU()),
    "no string": lambda m, nn, fw: m.register_buffer(3, fw.zeros(1)),
    "no parameter": lambda m, nn, fw: m.register_parameter("x", fw.zeros(1)),
    "no tensor": lambda m, nn, fw: m.register_buffer("x", 3),
    "no module": lambda m, nn, fw: m.add_module("x", 3),
    "not a leaf": lambda m, nn, fw: m.register_parameter("x", m.weight * 2),
    "module of any name": lambda m, nn, fw: m.add_module("0 x", nn.ReLU()),
    "again": lambda m, nn, fw: m.register_buffer("scratch", fw.zeros(1)),
    "mapping": lambda m, nn, fw: m._parameters.pop("weight") is None,
    "write in mapping": lambda m, nn, fw: m._modules.update(new=nn.ReLU()),
    "delete from mapping": lambda m, nn, fw: m._buffers.__delitem__("mean"),
    "get_submodule": lambda m, nn, fw: type(m.get_submodule("inner.0")).__name__,
    "get_submodule nowhere": lambda m, nn, fw: m.get_submodule("inner.7"),
    "get_submodule parameter": lambda m, nn, fw: m.get_submodule("weight"),
    "set_submodule": lambda m, nn, fw: m.set_submodule("inner.0", nn.Tanh()),
    "set_submodule new": lambda m, nn, fw: m.set_submodule("inner.x", nn.Tanh()),
    "set_submodule strict": lambda m, nn, fw: m.set_submodule(
        "inner.x", nn.Tanh(), strict=True
    ),
    "set_submodule empty": lambda m, nn, fw: m.set_submodule("", nn.Tanh()),
    "get_parameter": lambda m, nn, fw: m.get_parameter("inner.0.bias").numel(),
    "get_parameter of buffer": lambda m, nn, fw: m.get_parameter("mean"),
    "get_buffer": lambda m, nn, fw: m.get_buffer("mean").numel(),
    "get_buffer of parameter": lambda m, nn, fw: m.get_buffer("weight"),
}


def outcome(module: Any, space: Any, library: Any, change: str) -> list[object]:
    """Return what a change does: its result or error, and what is registered then."""
    try:
        answer: object = CHANGES[change](module, space, library)
    except Exception as error:
        # Ours are subclasses, at most.
        answer = next(
            kind
            for kind in type(error).__mro__
            if not kind.__module__.startswith("vkbackend")
        )
    return [
        answer,
        [(k, v is None) for k, v in module._parameters.items()],
        [(k, v is None) for k, v in module._buffers.items()],
        [(k, v is None) for k, v in module._modules.items()],
        list(module.state_dict()),
        repr(module).replace("Theirs", "Ours"),
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_pytorchs(change: str) -> None:
    ours = outcome(Ours(), nn, fw, change)
    assert ours == outcome(Theirs(), torch.nn, torch, change)


@pytest.mark.parametrize("kind", ["parameter", "module", "buffer"])
def test_nothing_is_assigned_before_init(kind: str) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            if kind == "parameter":
                self.x: Any = nn.Parameter(fw.zeros(1))
            elif kind == "module":
                self.x = nn.ReLU()
            else:
                self.register_buffer("x", fw.zeros(1))

    with pytest.raises(AttributeError, match=r"before Module\.__init__\(\) call"):
        Late()


@pytest.mark.parametrize("name", [n for n in dir(torch.nn.Module) if n[0] != "_"])
def test_signatures_are_pytorchs(name: str) -> None:
    if name in {"T_destination", "dump_patches", "ipu", "mtia", "xpu"}:
        assert not hasattr(nn.Module, name)
        return
    theirs, ours = getattr(torch.nn.Module, name), getattr(nn.Module, name)
    if callable(theirs) and name != "forward":
        own = inspect.signature(ours).parameters.values()
        other = inspect.signature(theirs).parameters.values()
        # `on_host` is ours.
        assert [(p.name, p.kind, p.default) for p in own if p.name != "on_host"] == [
            (p.name, p.kind, p.default) for p in other
        ]


@pytest.mark.parametrize(
    "twin",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy],
)
def test_copies_register_apart(twin: Callable[[Ours], Ours]) -> None:
    module = Ours()
    made = twin(module)
    assert list(made.state_dict()) == list(module.state_dict())
    assert repr(made) == repr(module)
    made.register_buffer("more", fw.zeros(1))
    del made.inner
    assert "more" not in module.state_dict()
    assert list(module._modules) == ["inner"]
    assert [name for name, _ in made.named_parameters()] == ["weight"]


def test_walks_take_pytorchs_options() -> None:
    def answers(module: Any, space: Any) -> list[object]:
        module.twin = module.inner
        module.tied = module.weight
        return [
            [n for n, _ in module.named_parameters("x", recurse=False)],
            [n for n, _ in module.named_parameters(remove_duplicate=False)],
            [n for n, _ in module.named_buffers(prefix="y", recurse=False)],
            [n for n, _ in module.named_modules(prefix="z")],
            [n for n, _ in module.named_modules(remove_duplicate=False)],
            [n for n, _ in module.named_children()],
            len(list(module.parameters(recurse=False))),
            len(list(module.modules())),
            [name for name in dir(module.inner) if name[0].isdigit()],
            list(module.state_dict(prefix="p.")),
            module.state_dict(keep_vars=True)["weight"] is module.weight,
        ]

    assert answers(Ours(), nn) == answers(Theirs(), torch.nn)


def registrations(library: Any, kind: Any) -> list[Any]:
    """Return what hooks of registrations see, and what they put in place."""
    module: Any = sys.modules["torch.nn.modules.module"]
    if library is fw:
        module = fw.nn.modules.module
    seen: list[Any] = []
    handles = [
        getattr(module, f"register_module_{what}_registration_hook")(
            lambda own, name, value, what=what: seen.append(
                (what, type(own).__name__.lower(), name, value is None)
            )
        )
        for what in ("parameter", "buffer", "module")
    ]
    own = kind()
    own.weight = library.nn.Parameter(library.ones(2))
    own.mean = library.ones(3)
    own.inner = own.none = own.mean = own.weight = None
    own.other = library.nn.BatchNorm1d(1)
    for handle in handles:
        handle.remove()
    handle = module.register_module_parameter_registration_hook(
        lambda _, __, value: library.nn.Parameter(value.detach() * 0 + 7)
    )
    own.weight = library.nn.Parameter(library.ones(2))
    handle.remove()
    return [[(a, "", *rest) for a, _, *rest in seen], own.weight.tolist()]


def test_hooks_of_registrations_are_pytorchs() -> None:
    assert registrations(fw, Ours) == registrations(torch, Theirs)


def test_parameter_under_the_name_of_a_property() -> None:
    """As PyTorch has it: where the property raises an error at first."""

    class Positive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(fw.zeros(1))  # type: ignore[misc]  # a property
            self.log_scale = self._parameters.pop("scale")

        @property
        def scale(self) -> fw.Tensor:
            return self.log_scale.exp()

    made = Positive()
    assert made.scale.tolist() == [1.0]
    assert [name for name, _ in made.named_parameters()] == ["log_scale"]
    with pytest.raises(KeyError, match="already exists"):
        made.scale = nn.Parameter(fw.zeros(1))  # type: ignore[misc]  # a property


def test_deletion_by_a_class_of_its_own() -> None:
    class Noted(nn.Module):
        def __delattr__(self, name: str) -> None:
            if name in self._parameters:
                del self._parameters[name]
            else:
                super().__delattr__(name)

    made = Noted()
    made.w, made.other = nn.Parameter(fw.zeros(1)), 3
    del made.w, made.other
    assert not hasattr(made, "w")
    assert not hasattr(made, "other")
    assert not list(made.parameters())


def test_registered_entries_are_views_of_a_dict() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    names = [name for name, _ in reversed(net._modules.items())]
    assert names == [*reversed(net._modules)] == ["1", "0"]
    assert [*reversed(net._modules.values())] == [net[1], net[0]]
    assert net[0]._parameters.keys() | {"scale"} == {"weight", "bias", "scale"}
    for name, module in net._modules.items():
        net._modules[name] = nn.Sequential(module)
    assert [type(each).__name__ for each in net] == ["Sequential"] * 2
