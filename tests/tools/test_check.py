"""The gate itself: a failure is seen, and what the command line asks for is run."""

import sys

import pytest

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


def test_what_is_prepared_is_given_to_its_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = [
        check.GateStep("first", lambda: "alone"),
        check.GateStep("second", lambda found: f"{found} apples", lambda: 3),
        check.GateStep("third", lambda found: "not run", fail),
    ]
    assert not check.perform(steps)
    table = capsys.readouterr().out
    assert "3 apples" in table
    assert "third       FAILED" in table
    assert "not run" not in table


def test_run_shows_what_a_failed_command_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = "import os, sys; print(os.environ['WORD']); sys.exit(3)"
    with pytest.raises(check.StepFailed, match="ended with 3"):
        check.run(sys.executable, "-c", program, variables={"WORD": "spoken"})
    assert capsys.readouterr().out == "spoken\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [step.name for step in check.WHOLE]),
        (["--fast"], ["style", "types", "tiny"]),
        (["--wide"], [step.name for step in check.WIDE]),
        (["--only", "types", "host"], ["types", "host"]),
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
