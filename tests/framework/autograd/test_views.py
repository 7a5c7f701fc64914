"""Views that follow the tape of their storage, and those that do not."""

import vkbackend.framework as fw


def test_detached_view_has_a_tape_of_its_own() -> None:
    x = fw.ones(3, requires_grad=True) * 2
    y = x.detach()
    y.mul_(x.sum())
    assert x.tolist() == y.tolist() == [12, 12, 12]
    assert y.requires_grad
    assert y.grad_node is not x.grad_node


def test_view_made_without_the_tape_stays_off_it() -> None:
    x = fw.ones(3, requires_grad=True) * 2
    with fw.no_grad():
        view = x[1:]
    x.mul_(3)
    assert view.tolist() == [6, 6]
    assert not view.requires_grad


def test_views_that_are_gone_are_forgotten() -> None:
    x = fw.zeros(4)
    for _ in range(1000):
        x.view(2, 2)
    assert len(x.views) < 40
