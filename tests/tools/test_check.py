"""The gate itself: a failure is seen, and what the command line asks for is run."""

import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from vkbackend.config import CACHE
from vkbackend.tools import check

pytestmark = pytest.mark.checkout


def fail() -> str:
    raise check.StepFailed("as it should")


def test_a_failed_step_fails_the_gate_after_the_others_ran(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = [check.GateStep("bad", fail), check.GateStep("good", lambda: "3 passed")]
    assert not check.perform(steps)
    table = capsys.readouterr().out
    assert "bad         FAILED" in table
    assert "as it should" in table
    assert "3 passed" in table
    assert check.perform(steps[1:])


def test_a_step_beside_others_begins_first_and_is_shown_in_its_turn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = threading.Event()

    def beside() -> str:
        begun.set()
        raise check.StepFailed("as it should", "what it printed\n")

    def before() -> str:
        assert begun.wait()
        print("printed before")
        return "3 apples"

    steps = [
        check.GateStep("first", before),
        check.GateStep("second", beside, beside=True),
    ]
    assert not check.perform(steps)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["--- first", "printed before", "--- second"]
    assert shown[3] == "what it printed"
    assert "3 apples" in shown[6]
    assert "second      FAILED" in shown[7]


@pytest.mark.parametrize("echo", [False, True])
def test_what_a_failed_command_printed_is_shown_once(
    echo: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import os, sys; print(os.environ['WORD']); sys.exit(3)"
    command = partial(
        check.run, sys.executable, "-c", program, variables={"WORD": "spoken"}
    )
    assert not check.perform([check.GateStep("bad", lambda: command(echo=echo))])
    shown = capsys.readouterr().out
    assert shown.count("spoken") == 1
    assert "ended with 3" in shown


def test_drivers_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def tests(*arguments: str, driver: str, **options: object) -> str:
        if driver == "first":
            raise check.StepFailed("1 failed", "its lines\n")
        return " ".join(arguments[2:])

    monkeypatch.setattr(check, "pytest", tests)
    tiers = {"first": (), "second": ("-k", "pool")}
    assert check.core_tier({"second": ("-k", "pool")}) == "second: -k pool"
    with pytest.raises(check.StepFailed, match="first: 1 failed") as failed:
        check.core_tier(tiers, beside=True)
    assert (failed.value.printed, failed.value.shown) == ("its lines\n", False)


def test_steps_share_a_cache_which_ends_with_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE.name, "")
    with check.one_cache():
        folder = Path(CACHE.read())
        (folder / "spirv").mkdir()
    assert not folder.exists()
    assert not CACHE.read()
    monkeypatch.setenv(CACHE.name, str(tmp_path))
    with check.one_cache():
        assert CACHE.read() == str(tmp_path)
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [step.name for step in check.WHOLE]),
        (["--fast"], ["style", "types", "tiny"]),
        (["--wide"], [step.name for step in check.WIDE]),
        (["--only", "types", "tests"], ["tests", "types"]),
        (["--only", "stale"], ["stale"]),
        (["--skip", "drivers"], [s.name for s in check.WHOLE if s.name != "drivers"]),
        (["-k", "pool"], ["tests"]),
        (["--driver", "swiftshader"], ["tests"]),
        (["--driver", "all-core", "-x"], ["core"]),
    ],
)
def test_the_command_line_chooses_steps(
    arguments: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(
        check, "perform", lambda steps: chosen.extend(s.name for s in steps)
    )
    check.main(arguments)
    assert chosen == expected
