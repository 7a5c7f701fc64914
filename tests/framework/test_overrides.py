"""Only tensors are like tensors."""

import pytest

import vkbackend.framework as fw


def test_no_argument_has_another_implementation() -> None:
    assert fw.overrides.is_tensor_like(fw.ones(1))
    assert not fw.overrides.is_tensor_like([1.0])
    assert not fw.overrides.has_torch_function((fw.ones(1),))
    with pytest.raises(TypeError, match="ask has_torch_function first"):
        fw.overrides.handle_torch_function(abs, ())
