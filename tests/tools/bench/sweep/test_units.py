"""Functions of the sweep, and arguments by declaration."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep.forms import Call, forms
from vkbackend.tools.bench.sweep.sides import Inputs, NumPy, Side, Torch, bound
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


def _accepts(
    side: Side, which: int, unit: SweptFunction, call: Call, inputs: Inputs
) -> bool:
    run = bound(side, which, unit, call, unit.dtypes()[0], inputs)
    if run is None:
        return True
    try:
        run[0]()
    except Exception:  # however a side refuses
        return False
    return True


NEVER_CALLED = frozenset(
    """
    arange_like band_like exponential_like fill_like integers_like linspace_like
    normal_like random_bits_like uniform_like
    """.split()
)
"""Ops of no tensors, which the functions that have them call."""


@pytest.fixture(scope="module")
def both_sides() -> tuple[Any, Any, Inputs]:
    pytest.importorskip("torch")
    here, there = NumPy(), Torch(Peer("torch"))
    return here, there, Inputs(here, there, on_gpu=False)


@pytest.mark.filterwarnings("ignore")  # of deprecated functions, on both sides
def test_every_function_has_arguments(both_sides: tuple[Any, Any, Inputs]) -> None:
    """Of a call that both sides refuse nothing is compared, and nobody hears of it."""
    here, there, inputs = both_sides
    small = forms("small")
    order = ["tiny", *(name for name in small if name != "tiny")]
    refused = set()
    for name, unit in units().items():
        for form in order:
            try:
                call = unit.arguments(small[form])
            except UnknownArgumentsError:
                continue
            if call is None or not _accepts(here, 0, unit, call, inputs):
                continue
            if _accepts(there, 1, unit, call, inputs):
                break
        else:
            refused.add(name)
    assert refused == NEVER_CALLED
