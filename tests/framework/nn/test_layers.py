"""Layers are imported when one is asked for."""

import subprocess
import sys

import pytest

from vkbackend.framework import nn

PROGRAM = """
import sys
import vkbackend.framework as fw
before = {*sys.modules}
from vkbackend.framework.nn import Linear
assert Linear is fw.nn.Linear is fw.nn.linear.Linear
print("vkbackend.framework.nn.linear" in before, "Linear" in vars(fw.nn))
"""


def test_an_import_brings_no_layer() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", nn.__all__)
def test_each_name_is_found(name: str) -> None:
    assert getattr(nn, name) is not None
    assert name in dir(nn)
    assert vars(nn)[name] is getattr(nn, name)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Line'"):
        nn.Line  # type: ignore[attr-defined]  # noqa: B018
