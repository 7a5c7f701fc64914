"""Counters of replayed steps."""

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.optim.step_counter import DeferredStepCounter


def test_steps_are_deferred_taken_back_and_applied() -> None:
    optimizer = optim.Adam([fw.ones(1, requires_grad=True)])
    counter = DeferredStepCounter(optimizer, object())
    one, other = {"step": 3}, {"step": 3}
    counter.members += [one, other]
    counter()
    mark = counter.mark()
    counter()
    assert (counter.step(), one["step"]) == (5, 3)
    counter.take_back(mark)
    assert counter.step() == 4
    counter.take_back(mark)
    assert counter.step() == 4
    counter.apply_deferred()
    assert (one["step"], other["step"], counter.step()) == (4, 4, 4)
    other["step"] += 1
    assert counter._fingerprint() == [0, 1]
