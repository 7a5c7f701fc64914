"""What a child makes of a probe's end."""

from typing import Any

import pytest

import vkbackend
from vkbackend.tools.doctor import selftest
from vkbackend.tools.doctor.worker import answer


def raising(error: Exception) -> Any:
    def probe() -> None:
        raise error

    return probe


def test_value_and_time() -> None:
    said = answer(lambda word: word * 2, {"word": "ab"})
    assert (said["status"], said["value"]) == ("ok", "abab")
    assert said["seconds"] >= 0


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (selftest.CaseSkipped("no such unit"), "skipped", "no such unit"),
        (selftest.WrongResult("1 is not 2"), "failed", "1 is not 2"),
        (vkbackend.NoVulkanError("none; install"), "failed", "none; install"),
        (KeyError("x"), "failed", "KeyError: 'x'"),
        (MemoryError(), "failed", "MemoryError: no message"),
    ],
)
def test_errors_are_answers(error: Exception, status: str, reason: str) -> None:
    said = answer(raising(error), {})
    assert (said["status"], said["reason"]) == (status, reason)
