"""Hooks find the backward pass that they run in."""

import vkbackend.framework as fw
from vkbackend.framework.autograd.running_pass import running_pass


def test_the_innermost_pass_is_found() -> None:
    seen = []
    x = fw.ones(2, requires_grad=True)

    def inner(grad: fw.Tensor) -> None:
        seen.append(running_pass())

    def outer(grad: fw.Tensor) -> None:
        seen.append(running_pass())
        y = fw.ones(2, requires_grad=True)
        y.register_hook(inner)
        with fw.enable_grad():
            (y * 2).sum().backward()
        seen.append(running_pass())

    x.register_hook(outer)
    (x * 3).sum().backward()
    first, within, last = seen
    assert first is last
    assert within is not first
    assert running_pass() is None
