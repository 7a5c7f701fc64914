"""Functions of the sweep, and arguments by declaration."""

import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench.sweep.forms import forms
from vkbackend.tools.bench.sweep.units import (
    SweptFunction,
    UnknownArgumentsError,
    units,
)

FORM = forms("small")["contiguous"]


def test_arguments_are_made_from_a_signature() -> None:
    def declared(x: "fw.Tensor", parts: "list[fw.Tensor]", dim: int, rate: "float", by: int = 3) -> None:  # fmt: skip # noqa: E501
        """Stand for a new function."""

    declared.__annotations__["parts"] = "Sequence[Tensor]"
    found = SweptFunction("declared", declared, None, None).arguments(FORM)
    assert found is not None
    assert found.args[0].shape == FORM.shape
    assert len(found.args[1]) == 3
    assert found.args[2:] == (-1, 0.5)

    def unknown(x: "fw.Tensor", recipe: object) -> None:
        """Stand for one of which the signature says too little."""

    with pytest.raises(UnknownArgumentsError):
        SweptFunction("unknown", unknown, None, None).arguments(FORM)


def test_peers_are_found_by_name() -> None:
    found = units()
    assert found["gelu"].peer == "nn.functional.gelu"
    assert found["abs"].peer == "abs"
    assert found["fft.rfft"].peer == "fft.rfft"
    assert "abs_" not in found
    assert found["exp"].dtypes()[:3] == ("float32", "float16", "bfloat16")
