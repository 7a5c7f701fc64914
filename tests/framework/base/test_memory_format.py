"""Tokens of memory formats and layouts."""

import pickle

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.memory_format import check_layout, check_memory_format


@pytest.mark.parametrize(
    "name",
    [
        "contiguous_format",
        "preserve_format",
        "channels_last",
        "channels_last_3d",
        "strided",
    ],
)
def test_tokens(name: str) -> None:
    token = getattr(fw, name)
    assert repr(token) == repr(getattr(torch, name))
    assert pickle.loads(pickle.dumps(token)) is token
    assert isinstance(token, fw.layout if name == "strided" else fw.memory_format)


def test_what_is_none_is_refused() -> None:
    check_layout("zeros", fw.strided)
    check_memory_format("clone", fw.channels_last)
    with pytest.raises(TypeError, match=r"^zeros: layout is 'sparse'; it must be"):
        check_layout("zeros", "sparse")
    with pytest.raises(TypeError, match=r"^clone: memory_format is 1; it must be a"):
        check_memory_format("clone", 1)
