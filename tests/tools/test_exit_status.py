"""How commands end."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import vkbackend
from vkbackend.tools.exit_status import PIPE_CLOSED, REFUSED, is_terminal, outcome

PRINTS = """
import sys
from vkbackend.tools.exit_status import outcome
sys.exit(outcome("name", lambda: print("x" * 100000) or 0))
"""
ENDS = """
import sys
import vkbackend.tools.doctor.cli as doctor
import vkbackend.tools.spirv.cli as spirv
from vkbackend.tools.exit_status import is_terminal
assert sys.stdout is None and not is_terminal(sys.stdout)
doctor.main(["--no-tests"])
sys.exit(spirv.main(["lint", "--rules"]))
"""


def _raises(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


def test_a_status_is_kept() -> None:
    assert [outcome("name", lambda n=n: n) for n in (0, 1, 3)] == [0, 1, 3]


@pytest.mark.parametrize(
    "error", [vkbackend.NoVulkanError("there is none"), OSError("there is none")]
)
def test_errors_are_one_line(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("name", _raises(error)) == REFUSED
    assert capsys.readouterr().err == "name: there is none\n"


def test_mistakes_of_ours_are_not_hidden() -> None:
    with pytest.raises(KeyError):
        outcome("name", _raises(KeyError("x")))


def test_nobody_reads() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as output:
        done = _run(PRINTS, stdout=output)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk() -> None:
    with open("/dev/full", "wb") as output:
        done = _run(PRINTS, stdout=output)
    assert done.returncode == REFUSED
    assert done.stderr.startswith("name: [Errno 28]")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="it takes a shell to close stdout")
def test_output_that_is_closed() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, ENDS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_terminals() -> None:
    assert not is_terminal(None)
    assert not is_terminal(io.StringIO())


def _run(program: str, stdout: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
