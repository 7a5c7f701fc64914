"""Status in shared pages, with ranks as threads."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import shared_pages
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.shared_pages import (
    COUNTERS,
    MOST_CONDITIONS,
    SECTION,
    ControlPages,
)


def control_of(group: Group) -> ControlPages:
    assert group._transport is not None
    return group._transport.world.control


def test_waits_of_other_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        control = control_of(group)
        if group.rank:
            control.publish([(5, 7), (SECTION + 9, 2)], "all_sum of ä")
        group.barrier()
        found = control.waits()
        group.barrier()
        if group.rank:
            control.publish([(0, 1)] * (MOST_CONDITIONS + 1), "many")
        group.barrier()
        many = control.waits()[1]
        group.barrier()
        if group.rank:
            control.publish(())
        group.barrier()
        return found, many, control.waits()

    for found, many, none in as_threads(monkeypatch, 2).run(work):
        assert list(found) == [1]
        assert found[1].conditions == ((5, 7), (SECTION + 9, 2))
        assert found[1].text == "all_sum of ä"
        assert (many.conditions, many.text) == (None, "many")
        assert many.epoch > found[1].epoch
        assert none == {}


def test_ends_of_other_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        control = control_of(group)
        before = control.obituary(1 - group.rank)
        group.barrier()
        control.end("ValueError: " + "x" * 5000 if group.rank else None)
        while not control.obituary(1 - group.rank):
            pass
        return before, control.obituary(1 - group.rank)

    first, second = as_threads(monkeypatch, 2).run(work)
    assert first[0] == second[0] == ""
    assert first[1].startswith("has failed (ValueError: xxx")
    assert second[1] == "has ended"


def test_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        control = control_of(group)
        left = SECTION - COUNTERS
        with pytest.raises(DistributedError, match="destroy groups"):
            control.allocate(left)
        some = control.allocate(3)
        assert {control.owner(each) for each in some} == {group.rank}
        control.words[some[0]] = 4
        control.give_back(some)
        assert control.words[control.allocate(3)[0]] == 0

    as_threads(monkeypatch, 2).run(work)


def test_the_end_of_a_process_is_seen() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = shared_pages._handle_of(child.pid)
    assert not shared_pages._is_gone(handle)
    assert not shared_pages._is_gone(os.getpid())
    child.kill()
    # A process that nobody has waited for yet has ended, too.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert isinstance(handle, int) or shared_pages._is_gone(handle)
    child.communicate()
    assert shared_pages._is_gone(child.pid)


def test_shared_memory_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_pages.free_shared_bytes() > 0
    monkeypatch.setattr(shared_pages, "_STORE", "/nowhere")
    assert shared_pages.free_shared_bytes() == sys.maxsize
