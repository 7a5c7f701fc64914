"""Tensors of a subclass: what they share, and what their results are."""

from typing import Any

import pytest

import vkbackend.framework as fw


class Plain(fw.Tensor):
    """A subclass that changes nothing."""


class Named(fw.Tensor):
    """A subclass with a constructor of its own."""

    def __init__(self, data: Any, label: str = "") -> None:
        super().__init__(data)
        self.label = label


class Sized(fw.Tensor):
    """A subclass whose constructor leaves the elements to `Tensor`."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes


def test_elements_are_shared(gpu: Any) -> None:
    x = fw.zeros(3).to(gpu)
    y = x.as_subclass(Plain)
    y[1] = 2.0
    assert x.tolist() == [0.0, 2.0, 0.0]
    assert type(y) is Plain
    assert type(y.as_subclass(fw.Tensor)) is fw.Tensor


def test_a_change_in_place_is_on_the_tape() -> None:
    leaf = fw.ones(3, requires_grad=True)
    x = leaf * 2
    x.as_subclass(Plain).mul_(3)
    x.sum().backward()
    assert leaf.grad.tolist() == [6.0, 6.0, 6.0]


def test_without_a_tape_it_is_a_leaf() -> None:
    leaf = fw.ones(3, requires_grad=True)
    with fw.no_grad():
        assert not leaf.as_subclass(Plain).requires_grad


def test_other_classes_are_refused() -> None:
    with pytest.raises(TypeError, match="as_subclass: <class 'int'> is given"):
        fw.ones(1).as_subclass(int)


def test_constructors_of_subclasses() -> None:
    assert Named([1.0, 2.0], label="n").tolist() == [1.0, 2.0]
    assert Named([1.0, 2.0], "n").label == "n"
    assert Plain([1.0]).tolist() == [1.0]
    assert Sized(2, 3).shape == (2, 3)
