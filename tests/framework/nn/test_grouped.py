"""Stacks of linear layers, of floats and quantized."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import nn


def test_both_ways_are_one_product_for_each_row() -> None:
    layer = nn.GroupedLinear(3, 4, 2)
    x = fw.tensor(np.random.default_rng(0).standard_normal((5, 4), np.float32))
    numbers = np.array([0, 0, 1, 2, 2])
    weight = layer.weight.detach().numpy()
    wanted = np.einsum("tk,tnk->tn", x.numpy(), weight[numbers])
    by_offset = layer(x, offs=fw.tensor([2, 3, 5]))
    by_number = layer(x, numbers=fw.tensor(numbers))
    for found in (by_offset, by_number):
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
    for given in ({}, {"offs": fw.tensor([5, 5, 5]), "numbers": fw.tensor(numbers)}):
        with pytest.raises(ArgumentError, match="of `offs` and `numbers`; one of them"):
            layer(x, **given)


def test_quantized_layers_have_the_weights_rounded() -> None:
    model = nn.Sequential(nn.GroupedLinear(3, 32, 2))
    report = nn.quantize(model, "q8_0")
    assert [each.name for each in report.layers] == ["0"]
    layer = model[0]
    assert isinstance(layer, nn.QGroupedLinear)
    assert repr(layer) == "QGroupedLinear(3, 32, 2, format='q8_0')"
    x = fw.tensor(np.random.default_rng(0).standard_normal((3, 32), np.float32))
    weight = layer.weight.dequantize().numpy()
    wanted = np.einsum("tk,tnk->tn", x.numpy(), weight[[0, 2, 2]])
    found = layer(x, offs=fw.tensor([1, 1, 3])), layer(x, numbers=fw.tensor([0, 2, 2]))
    for each in found:
        np.testing.assert_allclose(each.numpy(), wanted, rtol=1e-5, atol=1e-5)
    other = nn.Sequential(nn.QGroupedLinear(3, 32, 2))
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other[0].weight.dequantize().numpy(), weight)
