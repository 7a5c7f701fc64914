"""Limits of dtypes beside PyTorch's."""

import pytest
import torch

import vkbackend.framework as fw


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_floats(name: str) -> None:
    ours, theirs = fw.finfo(getattr(fw, name)), torch.finfo(getattr(torch, name))
    for each in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "dtype"):
        assert getattr(ours, each) == getattr(theirs, each)
    assert ours.resolution == pytest.approx(theirs.resolution, rel=1e-6)
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers(name: str) -> None:
    ours, theirs = fw.iinfo(getattr(fw, name)), torch.iinfo(getattr(torch, name))
    for each in ("bits", "max", "min", "dtype"):
        assert getattr(ours, each) == getattr(theirs, each)
    assert repr(ours) == repr(theirs)


def test_the_other_kind_is_refused() -> None:
    assert fw.finfo().bits == 32
    with pytest.raises(TypeError, match=r"^finfo: int32 is no float dtype"):
        fw.finfo(fw.int32)
    with pytest.raises(TypeError, match=r"^iinfo: float32 is no integer dtype"):
        fw.iinfo(fw.float32)
