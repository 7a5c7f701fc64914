"""Loading by name: what fits is copied, what does not is named."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.interruption import Interrupter
from tests.tree import FOLDERS
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import StateError


class Layer(nn.Module):
    """Buffers only."""

    def __init__(self, buffers: dict[str, fw.Tensor]) -> None:
        super().__init__()
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)


@pytest.fixture
def layer() -> nn.Linear:
    return nn.Linear(3, 2)


def test_strict_names_every_difference(layer: nn.Linear) -> None:
    before = layer.weight.detach().numpy()
    state = {"weight": fw.zeros((2, 3)), "scale": fw.zeros(2)}
    with pytest.raises(StateError) as raised:
        layer.load_state_dict(state)
    assert str(raised.value) == (
        "load_state_dict: the state does not fit Linear: missing keys: bias;"
        " unexpected keys: scale; strict=False ignores both"
    )
    assert (layer.weight.detach().numpy() == before).all()
    with pytest.raises(StateError, match="unexpected keys: 5;"):
        layer.load_state_dict({**layer.state_dict(), 5: fw.zeros(2)})  # type: ignore[dict-item]


def test_not_strict_takes_what_there_is(layer: nn.Linear) -> None:
    state = {"weight": fw.zeros((2, 3)), "scale": fw.zeros(2)}
    result = layer.load_state_dict(state, strict=False)
    assert result.missing_keys == ["bias"]
    assert result.unexpected_keys == ["scale"]
    assert layer.weight.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("strict", [True, False])
def test_a_wrong_shape_is_named_and_changes_nothing(
    layer: nn.Linear, strict: bool
) -> None:
    before = layer.bias
    assert before is not None
    values = before.tolist()
    state = {"weight": fw.zeros((3, 2)), "bias": fw.zeros(2)}
    with pytest.raises(StateError) as raised:
        layer.load_state_dict(state, strict=strict)
    assert str(raised.value) == (
        "load_state_dict: the state does not fit Linear: `weight` is (3, 2),"
        " the module's is (2, 3); shapes must be equal"
    )
    assert before.tolist() == values


def test_dtypes_are_cast(layer: nn.Linear) -> None:
    state = {"weight": fw.ones((2, 3), "float16"), "bias": fw.zeros(2, "float64")}
    layer.load_state_dict(state)
    assert layer.weight.dtype is fw.float32
    assert layer.weight.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("own", ["bool", "int64", "float16", "complex64"])
@pytest.mark.parametrize("given", ["bool", "int32", "float32"])
def test_every_dtype_becomes_the_modules(own: str, given: str) -> None:
    found = []
    for library in (fw, torch):
        module = library.nn.Module()
        module.register_buffer("a", library.zeros(3, dtype=getattr(library, own)))
        state = library.tensor([0.0, 1.0, 2.5]).to(getattr(library, given))
        module.load_state_dict({"a": state})
        found.append((str(module.a.dtype).split(".")[-1], module.a.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ([1.0], StateError, "`b` is of type list, not a tensor; shapes must be equal"),
        (
            None,
            StateError,
            "`b` is of type NoneType, not a tensor; shapes must be equal",
        ),
        (
            fw.ones(3),
            StateError,
            "`b` is (3,), the module's is (2,); shapes must be equal",
        ),
    ],
)
def test_nothing_is_loaded_of_what_does_not_fit(
    value: Any, error: type[Exception], text: str
) -> None:
    own = Layer({"a": fw.zeros(2), "b": fw.zeros(2, dtype="int64")})
    with pytest.raises(error) as raised:
        own.load_state_dict({"a": fw.ones(2), "b": value})
    assert str(raised.value) == (
        f"load_state_dict: the state does not fit Layer: {text}"
    )
    assert own.get_buffer("a").tolist() == [0, 0]


def test_a_state_that_is_no_mapping() -> None:
    with pytest.raises(TypeError) as raised:
        Layer({}).load_state_dict([fw.ones(2)])  # type: ignore[arg-type]
    assert str(raised.value) == (
        "load_state_dict: the state does not fit Layer: it is of type list;"
        " it must be a dict of tensors, as state_dict() gives"
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("on_host", [True, False])
def test_an_interrupt_leaves_all_of_the_old_or_all_of_the_new(
    on_host: bool, gpu: GpuDevice
) -> None:
    place = fw.device("cpu") if on_host else gpu
    own = Layer({name: fw.zeros(2, device=place) for name in "abc"})
    new = {name: fw.ones(2, dtype="float16") for name in "abc"}
    own.load_state_dict(new)  # what only the first one does takes long
    found = set()
    for step in itertools.count(1, 7 if on_host else 29):
        for each in own.buffers():
            each.zero_()
        one = Interrupter(step, str(FOLDERS["vkbackend.framework"]))
        one.run(lambda: own.load_state_dict(new))
        held = [tuple(each.tolist()) for each in own.buffers()]
        assert len(set(held)) == 1, one.where
        found.add(held[0])
        if not one.where:
            break
    assert (found, held[0]) == ({(0, 0), (1, 1)}, (1, 1))


def test_arrays_and_tensors_of_pytorch_are_taken(layer: nn.Linear) -> None:
    theirs = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    layer.load_state_dict(theirs.state_dict())
    assert layer.weight.tolist() == theirs.weight.tolist()
    layer.load_state_dict({"weight": np.ones((2, 3)), "bias": np.zeros(2, "f2")})
    assert layer.weight.tolist() == [[1.0] * 3] * 2
    assert layer.weight.dtype is fw.float32


def test_assign_takes_the_tensors_themselves(layer: nn.Linear) -> None:
    weight = fw.ones((2, 3), dtype="float64")
    layer.weight.requires_grad_(False)
    result = layer.load_state_dict({"weight": weight}, strict=False, assign=True)
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype is fw.float64
    assert not layer.weight.requires_grad
    assert layer.weight.array is weight.array
    assert result.missing_keys == ["bias"]


def test_text_of_the_answer(layer: nn.Linear) -> None:
    theirs = torch.nn.Linear(3, 2)
    for state in (theirs.state_dict(), {}):
        ours = layer.load_state_dict(state, strict=False)
        assert repr(ours) == repr(theirs.load_state_dict(state, strict=False))


def test_a_parameter_that_is_assigned_requires_a_gradient_as_before() -> None:
    for library in (fw, torch):
        own = library.nn.Linear(2, 1, bias=False)
        frozen = library.nn.Parameter(library.ones((1, 2)), requires_grad=False)
        own.load_state_dict({"weight": frozen}, assign=True)
        assert own.weight is frozen
        assert frozen.requires_grad
        own.register_load_state_dict_post_hook(lambda *_: 3)
        with pytest.raises(AssertionError):
            own.load_state_dict({"weight": frozen})


def test_what_a_hook_raises_takes_everything_back(layer: nn.Linear) -> None:
    def refuse(module: nn.Module, keys: Any) -> None:
        assert layer.weight.tolist() == [[1.0] * 3] * 2
        raise ValueError("no")

    layer.register_load_state_dict_post_hook(refuse)
    before = layer.weight.tolist()
    with pytest.raises(ValueError, match="no"):
        layer.load_state_dict({"weight": fw.ones((2, 3)), "bias": fw.ones(2)})
    assert layer.weight.tolist() == before
