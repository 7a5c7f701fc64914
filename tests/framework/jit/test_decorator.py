import inspect

import pytest

import vkbackend.framework as fw
from vkbackend.framework.jit import Jitted


def test_options_make_a_decorator() -> None:
    @fw.jit(max_traces=2)
    def double(x: fw.Tensor) -> fw.Tensor:
        """Return twice as much."""
        return x * 2

    assert isinstance(double, Jitted)
    assert double._max_traces == 2
    assert (double.__name__, double.__doc__) == ("double", "Return twice as much.")


def test_traces_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="max_traces is 0"):
        fw.jit(lambda x: x, max_traces=0)


def test_it_says_what_it_takes() -> None:
    assert [*inspect.signature(fw.jit).parameters] == ["function", "max_traces"]
    assert "traced once per call signature" in (fw.jit.__doc__ or "")
