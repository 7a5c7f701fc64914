"""Settings of a thread: blocks are undone however they are left."""

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from vkbackend.framework.base import scoped_setting
from vkbackend.framework.base.scoped_setting import (
    ScopedSetting,
    ScopeFrame,
    SettingScope,
)

pytestmark = pytest.mark.core


def test_the_innermost_block_counts() -> None:
    setting = ScopedSetting(1)
    assert setting.top.value == 1
    with SettingScope(setting, 2) as block:
        assert setting.top.value == 2
        with SettingScope(setting, 3), block:
            assert setting.top.value == 2
        assert setting.top.value == 2
    assert setting.top.value == 1


def test_a_function_has_a_block_of_its_own_in_each_call() -> None:
    setting = ScopedSetting(0)

    @SettingScope(setting, 1)
    def depth(count: int) -> int:
        found: int = setting.top.value + (depth(count - 1) if count else 0)
        return found

    assert depth(3) == 4
    assert setting.top.value == 0


def test_other_threads_have_settings_of_their_own() -> None:
    setting, found = ScopedSetting(0), []
    block = SettingScope(setting, 1)

    def enter() -> None:
        with block:
            found.append(setting.top.value)

    with SettingScope(setting, 2):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        found.append(setting.top.value)
    assert (*found, setting.top.value) == (1, 2, 0)


def test_threads_may_share_a_block() -> None:
    """Each leaves its own, in any order."""
    setting = ScopedSetting(1)
    block = SettingScope(setting, 2)
    entered, left = threading.Barrier(2, timeout=60), threading.Event()
    found = []

    def enter() -> None:
        with block:
            entered.wait()
            left.wait(60)
            found.append(setting.top.value)
        found.append(setting.top.value)

    thread = threading.Thread(target=enter)
    with block:
        thread.start()
        entered.wait()
    found.append(setting.top.value)
    left.set()
    thread.join()
    assert found == [1, 2, 1]


def test_a_block_may_be_left_by_a_thread_that_has_not_entered_it() -> None:
    """As that of a generator which another thread closes."""
    setting = ScopedSetting(1)

    def inside() -> Iterator[None]:
        with SettingScope(setting, 2):
            yield

    generator = inside()
    next(generator)
    thread = threading.Thread(target=generator.close)  # type: ignore[attr-defined]
    thread.start()
    thread.join()
    assert setting.top.value == 1


def test_a_block_that_was_not_left_ends_when_it_is_gone() -> None:
    """Also behind one that was entered later."""
    setting = ScopedSetting(0)
    lost = SettingScope(setting, 1)
    lost.__enter__()
    with SettingScope(setting, 2):
        del lost
        assert setting.top.value == 2
    assert setting.top.value == 0


class Interrupts:
    """Raises KeyboardInterrupt at one line of a module, counted as they are run."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.raised = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        # Python only reports what is raised in a finalizer.
        code = frame.f_code
        if code.co_filename != scoped_setting.__file__ or code.co_name == "__del__":
            return None
        if event == "line":
            self.left -= 1
            if self.left == -1:
                self.raised = True
                raise KeyboardInterrupt
        return self


def test_no_line_at_which_an_interrupt_leaves_anything_set() -> None:
    counted: set[ScopeFrame] = set()

    class Counted(SettingScope):
        def on_enter(self, scope_frame: ScopeFrame) -> None:
            counted.add(scope_frame)

        def on_exit(self, scope_frame: ScopeFrame) -> None:
            counted.discard(scope_frame)

    setting = ScopedSetting(0)
    for at in range(1000):
        interrupts, before = Interrupts(at), sys.gettrace()
        sys.settrace(interrupts)
        try:
            with SettingScope(setting, 1), Counted(setting, 2):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert setting.top.value == 0, f"line {at}"
        assert not counted, f"line {at}"
        if not interrupts.raised:
            break
    assert 20 < at < 1000
