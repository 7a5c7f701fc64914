"""Gate: all checks that must pass before a change goes in.

    python -m vkbackend.tools.check                      the whole gate
    python -m vkbackend.tools.check --fast               its quick half, for pre-commit
    python -m vkbackend.tools.check --only types tests   some of its steps
    python -m vkbackend.tools.check --skip drivers       where these cannot be had
    python -m vkbackend.tools.check -k pool              the tests alone, as in pytest
    python -m vkbackend.tools.check --driver lavapipe25  the tests alone, on that driver
    python -m vkbackend.tools.check --driver all-core    the core tier on every driver
    python -m vkbackend.tools.check --wide               the gate, then what takes hours

Every step runs, also after one has failed; the exit status says whether all passed. Run
it in the environment that tools/setup makes.

Types, the installed copy and other drivers are tried by one process each, beside the
tests, so that no core is idle: what a step prints is shown in its turn.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vkbackend.config import CACHE

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
# What does not depend on the installation: tables of every shader, and the sweep, which
# compares with PyTorch in a checkout.
ALIKE = (
    *(
        f"--ignore=tests/tools/spirv/test_{name}.py"
        for name in (
            *("lint", "report", "disassemble", "lint_rules", "render", "offline"),
            *("module", "cost_model", "family_table"),
        )
    ),
    "--ignore=tests/tools/bench/sweep",
    "--deselect=tests/vkbackend/shader/test_float_controls.py::test_library_stays_valid",
)
ONCE = "(null or test_tiny) and not (further and (tools or shader))"
# Where the core tests are that drivers run in the gate. Another driver may compile
# kernels and answer the device layer otherwise. Each op is tried on one other driver,
# and so is what writes kernels; the wide tier tries all on each. What is made of ops is
# tested on the system's driver. So is each value of a parameter of kernels and of the
# device layer: the others run one case of each such test.
LAYERS = (
    "tests/vkbackend",
    "tests/framework/kernels",
    "tests/test_second_process.py",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/test_kern*.py"))),
)
# The newer lavapipe optimises each product for half a minute: there, `test_select.py`
# and the implicit GEMM's `test_result_and_gradients` stand for these.
MORE_PRODUCTS = (
    *(
        f"--ignore=tests/framework/kernels/{name}.py"
        for name in ("gemm/test_side_by_side", "conv/test_pointwise")
    ),
    *(
        f"--deselect=tests/framework/kernels/{name}"
        for name in (
            "conv/test_implicit_gemm.py::test_every_cut",
            "conv/test_implicit_gemm.py::test_results_go_on_into_what_follows",
            "conv/test_implicit_gemm.py::test_results_of_volumes_go_on_into_what_follows",
            "gemm/test_select.py::test_sizes_compiled_in_are_right_and_few",
            "gemm/test_select.py::test_views_and_repeated_batches",
        )
    ),
)
OTHER_DRIVERS: dict[str, tuple[str, ...]] = {
    "lavapipe25": (
        *("-k", "not further", *MORE_PRODUCTS, *LAYERS, "tests/framework/codegen/glsl"),
    ),
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
    shown : bool, default False
        Whether that has been on the screen already.
    """

    def __init__(self, reason: str, printed: str = "", shown: bool = False) -> None:
        super().__init__(reason)
        self.printed = printed
        self.shown = shown


@dataclass(frozen=True)
class GateStep:
    """Step of the gate.

    Parameters
    ----------
    name : str
        What `--only` and `--skip` call it.
    run : callable
        Raises `StepFailed`, or returns a note for the summary.
    beside : bool, default False
        Whether it runs beside the steps before it and prints nothing: it has one
        process, or waits for downloads, and leaves a core idle.
    """

    name: str
    run: Callable[[], str]
    beside: bool = False


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
        Whether to print its output as it comes; `perform` prints that of a failure.
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
        name = Path(command[0]).name
        raise StepFailed(f"{name} ended with {process.returncode}", printed, echo)
    return printed


def pytest(
    *arguments: str,
    driver: str = "system",
    python: str | Path = sys.executable,
    folder: Path = ROOT,
    variables: Mapping[str, str] | None = None,
    beside: bool = False,
) -> str:
    """Run tests, on a driver, and return pytest's closing line.

    Beside other steps they run in one process, as each takes seconds to collect them,
    and print nothing.
    """
    processes = () if beside else SHARED_OUT
    try:
        chosen = drivers.environment(driver)
        printed = run(
            *(str(python), "-m", "pytest", *processes, *ENDS_HANGS, *arguments),
            folder=folder,
            echo=not beside,
            variables={**chosen, **COMPILE_ONCE, **(variables or {})},
        )
    except drivers.DriverError as error:
        raise StepFailed(str(error)) from error
    except StepFailed as failure:
        line, shown = _closing_line(failure.printed), failure.shown
        raise StepFailed(line, failure.printed, shown) from None
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


def tests() -> str:
    """Run the tests, those on a device under the validation layer: no message passes.

    In one run, as a worker takes ten seconds and more to collect them.
    """
    variables = {"VKBACKEND_VALIDATION": "sync", **QUICK_COMPILES}
    return pytest("-m", "not wide and not (device and long)", variables=variables)


def core_tier(arguments: Mapping[str, Sequence[str]], beside: bool = False) -> str:
    """Run the core tier on some drivers, all of them even if one fails.

    Parameters
    ----------
    arguments : mapping of str to sequence of str
        More arguments for pytest, by the name of the driver.
    beside : bool, default False
        Whether they run at once, beside other steps, and print nothing.
    """

    def on(name: str) -> str:
        chosen = ("-m", "core and not wide and not long", *arguments[name])
        line = pytest(*chosen, driver=name, variables=EIGHT_LANES, beside=beside)
        return f"{name}: {line}"

    notes, failures = [], []
    with ThreadPoolExecutor(len(arguments) if beside else 1) as at_once:
        for name, note in [(each, at_once.submit(on, each)) for each in arguments]:
            try:
                notes.append(note.result())
            except StepFailed as failure:
                failures.append((name, failure))
    if failures:
        reasons = "; ".join(f"{name}: {failure}" for name, failure in failures)
        printed = "".join(failure.printed for _, failure in failures)
        raise StepFailed(reasons, printed, shown=not beside)
    return "; ".join(notes)


def other_drivers() -> str:
    """Run what the gate has for drivers other than the system's."""
    for name in drivers.COMPILERS:
        # Tests that need one say that it cannot be had.
        with contextlib.suppress(drivers.DriverError):
            drivers.environment(name)
    return core_tier(OTHER_DRIVERS, beside=True)


def installed() -> str:
    """Build sdist and wheel, and test an installed copy away from the checkout."""
    with tempfile.TemporaryDirectory(prefix="vkbackend-") as folder:
        away = Path(folder)
        python = install(away)
        ask = "import vkbackend; print(vkbackend.__file__)"
        where = run(python, "-c", ask, folder=away)
        if not Path(where.strip()).is_relative_to(away):
            raise StepFailed(f"the tests would import {where.strip()}, not the wheel")
        # Of commands and shaders, the tests beside it run the further cases.
        chosen = ("-m", "not checkout and not wide", "-k", ONCE)
        return pytest(
            *(*chosen, *ALIKE, *INSTALLED),
            python=python,
            folder=away,
            variables=QUICK_COMPILES,
            beside=True,
        )


def install(away: Path) -> Path:
    """Install a copy in a folder, beside tests; return its Python."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", away, ROOT)
    venv.create(away / "venv", with_pip=True, symlinks=True)
    python = away / "venv" / "bin" / "python"
    (wheel,) = away.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    _lend_packages(python)
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", away / "tests", ignore=compiled)
    shutil.copy(ROOT / "pyproject.toml", away)
    return python


def _lend_packages(python: Path) -> None:
    """Let a new environment see the packages of this one, but not its editable copy."""
    # Python reads .pth files of site folders only, so the one that makes this
    # environment's copy editable has no effect through a line of another.
    ours = sysconfig.get_path("purelib")
    theirs = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(theirs.strip(), "lent.pth").write_text(f"{ours}\n")


FAST = (GateStep("style", style), GateStep("types", types), GateStep("tiny", tiny))
# What runs beside the tests stands after them, which say most.
WHOLE = (
    GateStep("style", style),
    GateStep("tests", tests),
    GateStep("types", types, beside=True),
    GateStep("installed", installed, beside=True),
    GateStep("drivers", other_drivers, beside=True),
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


@contextlib.contextmanager
def one_cache() -> Iterator[None]:
    """Give all steps one cache folder, empty at first, unless the user named one.

    Drivers and the installed copy take the SPIR-V that the tests compiled.
    """
    if CACHE.read():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="vkbackend-cache-") as folder:
        os.environ[CACHE.name] = folder
        try:
            yield
        finally:
            del os.environ[CACHE.name]


def perform(steps: Sequence[GateStep]) -> bool:
    """Run steps, print a table of them, and return whether all passed."""
    rows = []
    start = time.monotonic()
    with ThreadPoolExecutor(max(1, len(steps))) as threads:
        begun = {
            step.name: threads.submit(_timed, step) for step in steps if step.beside
        }
        for step in steps:
            print(f"--- {step.name}", flush=True)
            failure, note, seconds = (
                begun[step.name].result() if step.beside else _timed(step)
            )
            if failure is not None and not failure.shown:
                print(failure.printed, end="", flush=True)
            rows.append((step.name, failure is None, seconds, note))
    rows.append(("all", all(row[1] for row in rows), time.monotonic() - start, ""))
    print("\nstep        result  seconds")
    for name, passed, seconds, note in rows:
        line = f"{name:11} {'ok' if passed else 'FAILED':6} {seconds:8.1f}  {note}"
        print(line.rstrip())
    return rows[-1][1]


def _timed(step: GateStep) -> tuple[StepFailed | None, str, float]:
    """Run a step; return its failure, its note, and the seconds it took."""
    start = time.monotonic()
    failed, note = None, ""
    try:
        note = step.run()
    except StepFailed as failure:
        failed, note = failure, str(failure)
    return failed, note, time.monotonic() - start


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
    with one_cache():
        return 0 if perform(steps) else 1


if __name__ == "__main__":
    sys.exit(main())
