"""Graph modules: what they share, how they are copied and compiled."""

import copy

import pytest

import vkbackend.framework as fw
from tests.fx_programs import block, numbers
from vkbackend.framework import fx


def test_parameters_are_shared_with_the_root() -> None:
    model = block(fw)
    module = fx.symbolic_trace(model)
    assert module.lin.weight is model.lin.weight
    assert type(module).__name__ == "Block"
    assert not module.training
    assert {*module.state_dict()} == {*model.state_dict()}


def test_each_has_code_of_its_own() -> None:
    first = fx.symbolic_trace(lambda x: x + 1)
    second = fx.symbolic_trace(lambda x: x + 2)
    assert (first(1), second(1)) == (2, 3)
    second.graph = copy.deepcopy(first.graph)
    assert second(1) == 2
    with pytest.raises(TypeError, match="graph is a int"):
        first.graph = 3  # type: ignore[assignment]  # no graph


def test_a_copy_is_independent() -> None:
    module = fx.symbolic_trace(block(fw))
    copied = copy.deepcopy(module)
    x = numbers(fw, 3, 2)
    assert fw.equal(copied(x)["z"], module(x)["z"])
    assert copied.lin.weight is not module.lin.weight
    with fw.no_grad():
        copied.get_submodule("seq.1").bias.zero_()
    assert not fw.equal(copied(x)["z"], module(x)["z"])
    assert copied.graph.owning_module is copied


def test_a_root_of_names() -> None:
    graph = fx.Graph()
    graph.output(graph.get_attr("a.b"))
    value = fw.ones(2)
    assert fx.GraphModule({"a.b": value}, graph)() is value
    with pytest.raises(RuntimeError, match=r"reads 'a\.b', which root lacks"):
        fx.GraphModule({}, graph)


def test_modules_are_added_and_removed() -> None:
    module = fx.symbolic_trace(block(fw))
    assert module.add_submodule("more.deep", fw.nn.ReLU())
    assert isinstance(module.more.deep, fw.nn.ReLU)
    assert not module.add_submodule("w.deep", fw.nn.ReLU())
    module.delete_all_unused_submodules()
    names = [name for name, _ in module.named_modules()]
    assert names == ["", "lin", "seq", "seq.0", "seq.1"]
    assert module.delete_submodule("seq.0")
    assert not module.delete_submodule("seq.0")


def test_it_is_told_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    module = fx.symbolic_trace(lambda x: x.relu())
    assert "relu = x.relu()" in str(module)
    module.print_readable()
    assert "(torch.nn.Module):" in capsys.readouterr().out


def test_it_is_jitted(gpu: object) -> None:
    module = fx.symbolic_trace(block(fw)).to("gpu")
    jitted = fw.jit(module)
    x = numbers(fw, 3, 2).to("gpu")
    for _ in range(3):
        found = jitted(x)["z"]
    assert jitted.replays
    assert fw.allclose(found, module(x)["z"])
