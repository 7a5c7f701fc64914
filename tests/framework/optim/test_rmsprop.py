"""RMSprop, Adagrad and Adadelta: options; their steps are in `test_counting`."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import optim


def leaf() -> fw.Tensor:
    return fw.ones(2, requires_grad=True)


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match="RMSprop: alpha is -1"):
        optim.RMSprop([leaf()], alpha=-1)
    with pytest.raises(ValueError, match="Adagrad: lr_decay is -1"):
        optim.Adagrad([leaf()], lr_decay=-1)
    with pytest.raises(ValueError, match="Adadelta: rho is 2; it must be from 0 to 1"):
        optim.Adadelta([leaf()], rho=2)


def test_sums_are_there_before_the_first_step() -> None:
    x = leaf()
    state = optim.Adagrad([x], initial_accumulator_value=0.5).state[x]
    assert state["sum"].tolist() == [0.5, 0.5]
    assert state["step"] == 0
