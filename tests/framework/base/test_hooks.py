from collections import OrderedDict
from typing import Any

from vkbackend.framework.base.hooks import RemovableHandle


def test_a_handle_removes_its_hook_once() -> None:
    hooks: OrderedDict[int, Any] = OrderedDict()
    options: OrderedDict[int, Any] = OrderedDict()
    removed: list[str] = []
    first = RemovableHandle(hooks)
    second = RemovableHandle(
        hooks, extra_dict=options, on_remove=lambda: removed.append("second")
    )
    hooks[first.id], hooks[second.id] = "first", "second"
    options[second.id] = True
    with second:
        assert [*hooks.values()] == ["first", "second"]
    second.remove()
    assert [*hooks.values()] == ["first"]
    assert not options
    assert removed == ["second"]


def test_a_handle_does_not_keep_the_hooks_alive() -> None:
    handle = RemovableHandle(OrderedDict())
    handle.remove()
