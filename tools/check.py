"""Gate: all checks that must pass before a change goes in.

    python -m vkbackend.tools.check                      the whole gate
    python -m vkbackend.tools.check --fast               its quick half, for pre-commit
    python -m vkbackend.tools.check --only types host    some of its steps
    python -m vkbackend.tools.check --skip drivers       where these cannot be had
    python -m vkbackend.tools.check -k pool              the tests alone, as in pytest
    python -m vkbackend.tools.check --driver lavapipe25  the tests alone, on that driver
    python -m vkbackend.tools.check --driver all-core    the core tier on every driver
    python -m vkbackend.tools.check --wide               the gate, then what takes hours

Every step runs, also after one has failed; the exit status says whether all passed. Run
it in the environment that tools/setup makes.

The gate holds what a change can break; what repeats it for other sizes and dtypes has
the marker `wide`, and gets it where it combines what other cases of a test have
(`tests/gate_cases.py`). Of tests whose kernels take long to compile it runs one case,
and the others have the marker `long`. The wide tier runs these too, the whole suite on
other drivers, and the searches: random programs, interrupts, failing Vulkan calls. It
ends a larger piece of work.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import drivers

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "check"
# Two is what CI machines have; the software driver has threads of its own.
WORKERS = "2"
# Folders that the installed namespace has under `vkbackend`.
MAPPED = ("framework", "glsl", "tools")
# What of an installed copy may differ from the checkout: what is exported and imported,
# its data, which are shaders, commands, documentation, examples.
INSTALLED = (
    "tests/vkbackend/shader",
    "tests/tools",
    "tests/framework/examples",
    *(
        f"tests/test_{name}.py"
        for name in ("documentation", "exports", "import", "packaging", "tiny")
    ),
)
# Tables of every shader do not depend on the installation.
TABLES = tuple(
    f"--ignore=tests/tools/spirv/test_{name}.py"
    for name in (
        *("lint", "report", "disassemble", "lint_rules", "render", "offline", "module"),
        *("cost_model", "family_table"),
    )
)
# Where the core tests are that drivers run in the gate. Another driver may compile
# kernels and answer the device layer otherwise. Each op is tried on one other driver,
# and so are generated kernels; the wide tier tries all on each. What is made of ops is
# tested on the system's driver. So is each value of a parameter of kernels and of the
# device layer: the others run one case of each such test.
LAYERS = (
    "tests/vkbackend",
    "tests/framework/kernels",
    "tests/test_second_process.py",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/test_kern*.py"))),
)
OTHER_DRIVERS: dict[str, tuple[str, ...]] = {
    "lavapipe25": ("-k", "not further", *LAYERS, "tests/framework/codegen"),
    # It has no 64-bit numbers, so that indices and labels are words, and few features.
    "swiftshader": (
        *("-k", "not further or dispatch or ops"),
        *LAYERS,
        "tests/framework/dispatch",
        "tests/framework/ops/indexing",
        "tests/framework/ops/loss",
        "tests/framework/ops/selection",
    ),
}
# Programs that look for failures, each with its exit status, and how long they look.
SEARCHES = {
    "programs": ("tests.random_programs", "--count", "2000"),
    "inplace": ("tests.inplace_programs", "--count", "2000"),
    "one-result": ("tests.reproducible", "--count", "200", "--chains"),
    "stale": ("tests.stale_rows",),
    "interrupts": ("tests.interrupts", "--every", "3"),
    "injection": ("tests.injection", "--count", "400"),
}
# Whatever the user's environment says, Python keeps what it compiled: some tests start
# processes, and all modules are rewritten for each run of pytest otherwise.
COMPILE_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}

# Lavapipe takes most of the device tests' time to optimise kernels that run once, and
# for code of wide vectors. The core tests run on optimised ones of the newer lavapipe,
# of eight lanes: where the processor has sixteen, they compile longer, and the wide
# tier has them.
QUICK_COMPILES = {"GALLIVM_PERF": "nopt", "LP_NATIVE_VECTOR_WIDTH": "128"}
EIGHT_LANES = {"LP_NATIVE_VECTOR_WIDTH": "256"}

# A test that hangs, in a driver's compiler for example, ends its worker and says where
# it was. The longest tests, of the wide tier, take minutes.
HANG_SECONDS = 900
ENDS_HANGS = (
    *("-o", f"faulthandler_timeout={HANG_SECONDS}"),
    *("-o", "faulthandler_exit_on_timeout=true"),
)
# Each worker begins with files of its own, the tests of which share kernels and plans;
# one that is done takes tests of the other.
SHARED_OUT = ("-n", WORKERS, "--dist", "worksteal")


class StepFailed(Exception):
    """A step of the gate that did not pass.

    Parameters
    ----------
    reason : str
        What the summary says about it.
    printed : str, default ""
        All that the failed command printed.
    """

    def __init__(self, reason: str, printed: str = "") -> None:
        super().__init__(reason)
        self.printed = printed


@dataclass(frozen=True)
class GateStep:
    """Step of the gate.

    Parameters
    ----------
    name : str
        What `--only` and `--skip` call it.
    run : callable
        Raises `StepFailed`, or returns a note for the summary. It is given what
        `prepare` returned, if there is such.
    prepare : callable, optional
        What of the step can be done beside the ones before, some of which leave a core
        idle, as does waiting for a download. It may raise `StepFailed` too.
    """

    name: str
    run: Callable[..., str]
    prepare: Callable[[], Any] | None = None


def run(
    *command: str | Path,
    folder: Path = ROOT,
    echo: bool = False,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return what it printed; raise `StepFailed` if it fails.

    Parameters
    ----------
    *command : str or Path
        The program and its arguments.
    folder : Path
        Where to run it; the checkout if not given.
    echo : bool, default False
        Whether to print its output as it comes; otherwise only when it fails.
    variables : mapping of str to str, optional
        What to add to its environment.
    """
    lines = []
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if echo:
                print(line, end="", flush=True)
    printed = "".join(lines)
    if process.returncode != 0:
        if not echo:
            print(printed, end="", flush=True)
        name = Path(command[0]).name
        raise StepFailed(f"{name} ended with {process.returncode}", printed)
    return printed


def pytest(
    *arguments: str,
    driver: str = "system",
    python: str | Path = sys.executable,
    folder: Path = ROOT,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run tests, on a driver, and return pytest's closing line."""
    try:
        chosen = drivers.environment(driver)
        printed = run(
            *(str(python), "-m", "pytest", *SHARED_OUT, *ENDS_HANGS, *arguments),
            folder=folder,
            echo=True,
            variables={**chosen, **COMPILE_ONCE, **(variables or {})},
        )
    except drivers.DriverError as error:
        raise StepFailed(str(error)) from error
    except StepFailed as failure:
        raise StepFailed(_closing_line(failure.printed)) from None
    return _closing_line(printed)


def _closing_line(printed: str) -> str:
    return (printed.splitlines() or ["nothing was printed"])[-1].strip("= ")


def style() -> str:
    """Lint, and compare with the formatter's output."""
    run(sys.executable, "-m", "ruff", "check", "--output-format=concise", ".")
    run(sys.executable, "-m", "ruff", "format", "--quiet", "--check", ".")
    return ""


def types() -> str:
    """Check types, in a tree of links that looks like the installed namespace."""
    package = BUILD / "types" / "vkbackend"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for source in (*(ROOT / "vkbackend").iterdir(), *map(ROOT.joinpath, MAPPED)):
        (package / source.name).symlink_to(source)
    options = [f"--config-file={ROOT / 'pyproject.toml'}", "--no-error-summary"]
    options += [f"--cache-dir={BUILD / 'mypy'}", "--package=vkbackend"]
    path = {"MYPYPATH": str(package.parent)}
    run(sys.executable, "-m", "mypy", *options, variables=path)
    return ""


def tiny() -> str:
    """Run the newcomer's tests."""
    return pytest("-n0", "tests/test_tiny.py")


def host() -> str:
    """Run the tests that need no device."""
    return pytest("-m", "not device and not wide")


def device() -> str:
    """Run the device tests, under the validation layer; any message fails."""
    variables = {"VKBACKEND_VALIDATION": "sync", **QUICK_COMPILES}
    return pytest("-m", "device and not wide and not long", variables=variables)


def core_tier(arguments: Mapping[str, Sequence[str]]) -> str:
    """Run the core tier on some drivers, all of them even if one fails."""
    notes, failures = [], []
    for name, more in arguments.items():
        try:
            chosen = ("-m", "core and not wide and not long", *more)
            line = pytest(*chosen, driver=name, variables=EIGHT_LANES)
            notes.append(f"{name}: {line}")
        except StepFailed as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise StepFailed("; ".join(failures))
    return "; ".join(notes)


def fetch_drivers() -> None:
    """Fetch what steps need of other drivers; they say what cannot be had."""
    for name in (*drivers.COMPILERS, *OTHER_DRIVERS):
        with contextlib.suppress(drivers.DriverError):
            drivers.environment(name)


def install() -> "tempfile.TemporaryDirectory[str]":
    """Build sdist and wheel, and return a folder with an installed copy and tests."""
    scratch = tempfile.TemporaryDirectory(prefix="vkbackend-")
    away = Path(scratch.name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", away, ROOT)
    venv.create(away / "venv", with_pip=True, symlinks=True)
    python = _python_of(away)
    (wheel,) = away.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    _lend_packages(python)
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", away / "tests", ignore=compiled)
    shutil.copy(ROOT / "pyproject.toml", away)
    return scratch


def installed(scratch: "tempfile.TemporaryDirectory[str]") -> str:
    """Test an installed copy away from the checkout."""
    with scratch as folder:
        away = Path(folder)
        python = _python_of(away)
        ask = "import vkbackend; print(vkbackend.__file__)"
        where = run(python, "-c", ask, folder=away)
        if not Path(where.strip()).is_relative_to(away):
            raise StepFailed(f"the tests would import {where.strip()}, not the wheel")
        chosen = ("-m", "not checkout and not wide", "-k", "null or test_tiny")
        return pytest(
            *(*chosen, *TABLES, *INSTALLED),
            python=python,
            folder=away,
            variables=QUICK_COMPILES,
        )


def _python_of(away: Path) -> Path:
    return away / "venv" / "bin" / "python"


def _lend_packages(python: Path) -> None:
    """Let a new environment see the packages of this one, but not its editable copy."""
    # Python reads .pth files of site folders only, so the one that makes this
    # environment's copy editable has no effect through a line of another.
    ours = sysconfig.get_path("purelib")
    theirs = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(theirs.strip(), "lent.pth").write_text(f"{ours}\n")


FAST = (GateStep("style", style), GateStep("types", types), GateStep("tiny", tiny))
WHOLE = (
    *FAST[:-1],
    GateStep("host", host),
    GateStep("device", device),
    GateStep("installed", installed, prepare=install),
    GateStep("drivers", lambda _: core_tier(OTHER_DRIVERS), prepare=fetch_drivers),
)


def search(*command: str) -> str:
    """Run a program of `SEARCHES` and return its last line."""
    printed = run(sys.executable, "-m", *command, echo=True, variables=COMPILE_ONCE)
    return _closing_line(printed)


WIDE = (
    *WHOLE,
    GateStep("repeats", lambda: pytest("-m", "wide or long")),
    *(
        GateStep(name, partial(pytest, "-m", "device", driver=name))
        for name in OTHER_DRIVERS
    ),
    *(GateStep(name, partial(search, *command)) for name, command in SEARCHES.items()),
)


def perform(steps: Sequence[GateStep]) -> bool:
    """Run steps, print a table of them, and return whether all passed."""
    rows = []
    with ThreadPoolExecutor(2) as beside:
        prepared = {
            step.name: beside.submit(step.prepare) for step in steps if step.prepare
        }
        for step in steps:
            print(f"--- {step.name}", flush=True)
            start = time.monotonic()
            try:
                given = [prepared[step.name].result()] if step.prepare else []
                note, passed = step.run(*given), True
            except StepFailed as failure:
                note, passed = str(failure), False
            rows.append((step.name, passed, time.monotonic() - start, note))
    print("\nstep        result  seconds")
    for name, passed, seconds, note in rows:
        print(f"{name:11} {'ok' if passed else 'FAILED':6} {seconds:8.1f}  {note}")
    passed = all(row[1] for row in rows)
    total = sum(row[2] for row in rows)
    print(f"{'all':11} {'ok' if passed else 'FAILED':6} {total:8.1f}")
    return passed


def _arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="check",
        description="Run the gate; with a driver or pytest's arguments, tests alone.",
    )
    names = [step.name for step in WIDE]
    parser.add_argument("--fast", action="store_true", help="the quick half")
    parser.add_argument("--wide", action="store_true", help="also what takes hours")
    parser.add_argument("--only", nargs="+", choices=names, help="these steps")
    parser.add_argument(
        "--skip", nargs="+", choices=names, default=[], help="all but these"
    )
    parser.add_argument(
        "--driver",
        choices=(*drivers.NAMES, "all-core"),
        help="Vulkan driver to test on",
    )
    return parser.parse_known_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit status is 0 if all passed."""
    options, rest = _arguments(arguments)
    if not (ROOT / "pyproject.toml").exists():
        print(f"check: {ROOT} is no checkout; run it from one", file=sys.stderr)
        return 2
    if options.driver == "all-core":
        everywhere = dict.fromkeys(drivers.DRIVERS, rest)
        steps = [GateStep("core", lambda: core_tier(everywhere))]
    elif options.driver or rest:
        driver = options.driver or "system"
        steps = [GateStep("tests", lambda: pytest(*rest, driver=driver))]
    else:
        tier = FAST if options.fast else WIDE if options.wide else WHOLE
        if options.only:
            tier = tuple(step for step in WIDE if step.name in options.only)
        steps = [step for step in tier if step.name not in options.skip]
    return 0 if perform(steps) else 1


if __name__ == "__main__":
    sys.exit(main())
