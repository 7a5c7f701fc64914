"""Views that follow the tape of their storage, and those that do not."""

import weakref
from typing import Any

import torch

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


def test_views_of_what_was_changed_are_shown_as_strided() -> None:
    """As PyTorch's, whichever of the two is read first."""
    for ours in (True, False):
        lib: Any = fw if ours else torch
        x = lib.arange(6.0).reshape(2, 3).requires_grad_()
        base = x * 1
        row, turned = base[0], base.t()
        base.mul_(2)
        names = [type(each.grad_fn).__name__ for each in (base, row, turned)]
        assert names == ["MulBackward0", *["AsStridedBackward0"] * 2]
        row.add_(x[1])
        names = [type(each.grad_fn).__name__ for each in (base, row, turned)]
        assert names == ["CopySlices", *["AsStridedBackward0"] * 2]
        for each in (row, turned):
            ((behind, _),) = each.grad_fn.next_functions
            assert behind is base.grad_fn
        log: list[Any] = []
        turned.grad_fn.register_prehook(
            lambda grads, log=log: log.append(grads[0].tolist())
        )
        (row.sum() + (turned * 3).sum()).backward()
        assert log == [[[3.0, 3.0]] * 3]
        assert x.grad.tolist() == [[8.0] * 3, [10.0] * 3]
        base[base > 3] = 0
        assert type(base.grad_fn).__name__ == "IndexPutBackward0"


def test_a_changed_view_does_not_keep_its_base() -> None:
    """No cycle waits for the collector, whose memory would wait with it."""
    x = fw.ones(4, requires_grad=True)
    base = x * 1
    view = base[:2]
    view.mul_(3)
    gone = weakref.ref(base)
    node = weakref.ref(base.array)
    del base
    assert gone() is None
    del view
    assert node() is None
