"""Types are those of the library."""

import vkbackend.framework as fw


def test_types_are_the_classes() -> None:
    assert fw.types.Tensor is fw.Tensor
    assert isinstance(1.5, fw.types.Number)
    assert isinstance(fw.float32, fw.types._dtype)
    assert isinstance(fw.device("cpu"), fw.types.Device)
