"""What `fw.compile` makes of a module, as PyTorch's."""

import copy
from typing import Any

import pytest
import torch

import vkbackend.framework as fw


@pytest.mark.parametrize("library", [fw, pytest.param(torch, marks=pytest.mark.wide)])
def test_a_compiled_module(library: Any) -> None:
    model = library.nn.Sequential(library.nn.Linear(2, 1), library.nn.Dropout(0.5))
    options = {} if library is fw else {"backend": "eager"}
    compiled = library.compile(model, **options)
    assert compiled is not model
    assert isinstance(compiled, library.nn.Module)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    assert not compiled.eval().training
    assert not model.training
    compiled.note = 3
    assert (model.note, compiled.note) == (3, 3)
    del compiled.note
    assert not hasattr(model, "note")
    assert len(compiled) == 2
    copied = copy.deepcopy(compiled)
    assert type(copied) is type(compiled)
    assert copied.state_dict().keys() == compiled.state_dict().keys()
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    x = library.ones(3, 2)
    assert compiled(x).tolist() == model(x).tolist()
    state = {k: v.clone() for k, v in compiled.state_dict().items()}
    compiled.load_state_dict(state)
    with pytest.raises(AttributeError):
        compiled.no_such_name  # noqa: B018
