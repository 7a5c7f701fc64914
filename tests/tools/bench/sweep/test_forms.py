"""Shape classes and descriptions of tensors."""

from vkbackend.tools.bench.sweep.forms import (
    NAMES,
    Given,
    call,
    filled,
    first,
    flatten,
    forms,
    operand,
)


def test_each_size_has_every_class() -> None:
    for size in ("full", "small"):
        assert tuple(forms(size)) == NAMES
    assert first(forms("small")["transposed"]).layout == "transposed"
    row = operand(forms("small")["broadcast"], 1, None, None)
    assert row.shape == forms("small")["broadcast"].shape[-1:]


def test_tensors_take_the_place_of_their_descriptions() -> None:
    a, b = Given((2,)), Given((2,), seed=1)
    arguments = call(a, (b, 3), mask=a)
    assert flatten(arguments) == [a, b, a]
    tensors = {id(a): "a", id(b): "b"}
    assert filled(arguments.args, tensors) == ("a", ("b", 3))
    assert filled(arguments.keywords, tensors) == {"mask": "a"}
