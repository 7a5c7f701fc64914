"""Names of `torch.jit` leave functions as they are."""

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.jit import Final, script


def test_decorators_return_the_function() -> None:
    @fw.jit.script
    def function(x: fw.Tensor) -> fw.Tensor:
        return x * 2

    assert script is fw.jit.script
    assert function(fw.ones(1)).item() == 2
    assert fw.jit.ignore(function) is function
    assert fw.jit.ignore(drop=True)(function) is function
    assert fw.jit.trace(function, fw.ones(1)) is function
    assert fw.jit.wait(fw.jit.fork(function, fw.ones(1))).item() == 2
    assert not fw.jit.is_scripting()
    assert Final is fw.jit.Final


def test_a_script_module_is_a_module() -> None:
    class Doubled(fw.jit.ScriptModule):
        @fw.jit.script_method
        def forward(self, x: fw.Tensor) -> fw.Tensor:
            return x * 2

    assert isinstance(Doubled(), nn.Module)
    assert Doubled()(fw.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match=r"jit.save: files of TorchScript"):
        fw.jit.save(Doubled(), "x.pt")


def test_jit_is_a_function_still() -> None:
    assert fw.jit(lambda x: x + 1)(fw.ones(1)).item() == 2


def test_annotations_are_types() -> None:
    for library in (fw, torch):
        ask = library.jit.isinstance
        assert ask([1, 2], list[int])
        assert not ask([1, "a"], list[int])
        assert ask({"a": 1.0}, dict[str, float])
        assert ask((1, "a"), tuple[int, str])
        assert not ask((1,), tuple[int, str])
        assert ask(None, int | None) if library is fw else True
    assert issubclass(fw.jit.TracerWarning, Warning)
