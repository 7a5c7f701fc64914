import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.models.parameters import (
    set_module,
    set_parameter,
    tied_parameters,
)


@pytest.mark.null
def test_parameters_and_modules_by_name() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Sequential(nn.Linear(2, 2))})
    assert tied_parameters(model) == {}
    set_parameter(model, "b.0.weight", model.get_parameter("a.weight"))
    assert tied_parameters(model) == {"b.0.weight": "a.weight"}
    set_module(model, "b.0", nn.Identity())
    assert tied_parameters(model) == {}
    assert model["b"](fw.ones(3)).tolist() == [1, 1, 1]
