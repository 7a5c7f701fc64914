"""Vulkan commands that fail, each in each way the specification allows.

    python -m tests.injection --count 100              100 cases, spread over all
    python -m tests.injection                          all of them, in hours

For each case a process opens a device, trains a model eagerly and another under `jit`,
makes the pool grow, reads timestamps and closes the device; one call fails. Then: was
it a documented error, or did everything go on; can the parameters be read, as they were
before or after a step; do both trainings go on; is a fresh one right; is anything left
after closing; is all of it right on a device that is opened again. The exit status says
whether every case was.
"""

import argparse
import collections
import importlib
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import vkbackend
import vkbackend.framework as fw
from tests.training import Training
from tests.vulkan_shim import MEMORIES, Case, Shim, installed
from vkbackend import open_devices
from vkbackend.framework.base.device import GpuDevice
from vkbackend.vk import generated as vk

STEPS = 3
WATCHDOG_SECONDS = 120
# What only a layer returns, and what tells of no failure that lasts.
_LEFT_OUT = {"VK_ERROR_VALIDATION_FAILED"}
_PASSING = {"VK_TIMEOUT", "VK_INCOMPLETE"}

State = list[bytes]


class Job:
    """What is done with a device: two trainings and what else calls the driver."""

    def __init__(self, name: str | int) -> None:
        self.name = name
        self.trainings: list[Training] = []
        self.done: list[int] = []
        self.gpu: GpuDevice | None = None

    def run(self) -> None:
        found = fw.device(self.name)
        assert isinstance(found, GpuDevice)
        self.gpu = found
        for jitted in (False, True):
            self.trainings.append(Training(found, "AdamW", jitted))
            self.done.append(0)
            for _ in range(STEPS):
                self.step(-1)
        with found.gpu.profile() as profile:
            (fw.ones(100, device=found) + 1).numpy()
        assert profile.spans
        held = [fw.ones(6 << 20, device=found) for _ in range(4)]
        assert float(held[-1].sum().item()) == float(6 << 20)
        del held
        found.gpu.synchronize()
        found.gpu.empty_cache()

    def step(self, which: int) -> None:
        training = self.trainings[which]
        training.step(*training.batch()).item()
        self.done[which] += 1

    def states(self, which: int) -> State:
        model = self.trainings[which].model
        return [each.numpy().tobytes() for each in model.state_dict().values()]


def reference(name: str | int) -> list[State]:
    """Return the parameters before the first step and after each."""
    job = Job(name)
    found = fw.device(name)
    assert isinstance(found, GpuDevice)
    job.trainings.append(Training(found, "AdamW", False))
    job.done.append(0)
    states = [job.states(0)]
    for _ in range(STEPS + 1):
        job.step(0)
        states.append(job.states(0))
    return states


def outcome(case: Case, name: str | int, expected: list[State]) -> dict[str, Any]:
    """Run one case; return what happened and what was wrong."""
    open_devices.close_all()
    shim = Shim(case)
    job = Job(name)
    wrong: list[str] = []
    said = ""
    with installed(shim):
        try:
            job.run()
        except vkbackend.Error as error:
            said = f"{type(error).__name__}: {error}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            wrong.append(f"undocumented: {said}")
        lost = job.gpu is not None and bool(job.gpu.gpu.logical.lost)
        if shim.injected:
            shim.failing = lost
            wrong += _aftermath(job, lost, expected)
        job.trainings.clear()
        # What fails nothing before may make the closing fail.
        wrong += _attempt("close", open_devices.close_all, again=True)
        calls = dict(shim.calls)
        shim.failing = False
        wrong += _attempt("close again", open_devices.close_all)
        wrong += [f"left: {shim.left()}"] if shim.left() else []
        again: list[list[State]] = []
        wrong += _attempt("reopen", lambda: again.append(reference(name)))
        wrong += ["reopened: wrong numbers"] if again and again[0] != expected else []
        job.gpu = None
        wrong += _attempt("last close", open_devices.close_all)
    return {
        "injected": shim.injected,
        "said": said,
        "wrong": wrong,
        "calls": calls,
    }


def _aftermath(job: Job, lost: bool, expected: list[State]) -> list[str]:
    """Return what is wrong with the trainings and their device after a failure."""
    wrong = []
    for which, done in enumerate(job.done):
        kind = "jitted" if which else "eager"
        try:
            found = job.states(which)
            if lost:
                wrong.append(f"{kind}: read from a lost device")
                continue
            places = (expected[done], expected[min(done + 1, STEPS + 1)])
            if not all(each in pair for each, *pair in zip(found, *places)):
                wrong.append(f"{kind}: parameters of neither step")
            job.step(which)
        except vkbackend.DeviceLost:
            wrong += [] if lost else [f"{kind}: lost"]
        except Exception as error:
            wrong.append(f"{kind}: parameters lost: {type(error).__name__}: {error}")
    if job.gpu is not None and not lost:
        fresh: list[list[State]] = []
        wrong += _attempt("fresh", lambda: fresh.append(reference(job.name)))
        wrong += ["fresh: wrong numbers"] if fresh and fresh[0] != expected else []
    return wrong


def _attempt(
    where: str, action: Callable[[], object], again: bool = False
) -> list[str]:
    """Return what was wrong with an action; with `again` it may fail as documented."""
    try:
        action()
    except vkbackend.Error as error:
        return [] if again else [f"{where}: {type(error).__name__}: {error}"]
    except Exception as error:
        return [f"{where}: undocumented {type(error).__name__}: {error}"]
    return []


def results_of(command: str) -> list[str]:
    """Return the results that the specification allows a command, but success."""
    registry = importlib.import_module("vulkan_object").get_vulkan_object
    global _registry
    _registry = _registry or registry()
    row = _registry.commands[command]
    passing = [each for each in row.successCodes if each in _PASSING]
    return [each for each in row.errorCodes if each not in _LEFT_OUT] + passing


_registry: Any = None


def cases(memory: str, calls: dict[str, int]) -> Iterator[Case]:
    """Yield every case for the commands that a run without failures calls."""
    for command, count in sorted(calls.items()):
        for result in results_of(command):
            number = getattr(vk, result, None)
            if number is None:
                continue
            for place in sorted({1, count // 2 + 1, count}):
                yield Case(memory, command, number, place)
                if number < 0 and result != "VK_ERROR_DEVICE_LOST":
                    yield Case(memory, command, number, place, lasting=True)


class Worker:
    """A process that runs cases; a new one takes over after a crash or a hang."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._process: subprocess.Popen[str] | None = None

    def run(self, case: Case) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.injection", "--serve", self._device],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        hung: list[bool] = []
        watchdog = threading.Timer(
            WATCHDOG_SECONDS, lambda: (hung.append(True), process.kill())
        )
        watchdog.start()
        process.stdin.write(json.dumps(asdict(case)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        watchdog.cancel()
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        status = process.wait()
        self.close()
        what = "hung" if hung else f"died: {status}"
        return {"injected": 1, "said": "", "wrong": [what], "calls": {}}

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def serve(device: str) -> None:
    """Run the cases that come as lines, and answer with lines."""
    warnings.simplefilter("ignore")
    out = sys.stdout
    name = int(device) if device.isdigit() else device
    with redirect_stdout(sys.stderr):
        expected: dict[str, list[State]] = {}
        for line in sys.stdin:
            case = Case(**json.loads(line))
            if case.memory not in expected:
                open_devices.close_all()
                with installed(Shim(Case(case.memory))):
                    expected[case.memory] = reference(name)
                    open_devices.close_all()
            found = outcome(case, name, expected[case.memory])
            out.write(json.dumps(found) + "\n")
            out.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases as the command line says; the exit status is 0 if all were right."""
    parser = argparse.ArgumentParser(prog="python -m tests.injection")
    parser.add_argument("--count", type=int, help="cases, spread over all of them")
    parser.add_argument("--memory", choices=MEMORIES, help="one kind of memory alone")
    parser.add_argument("--command", help="one command alone")
    parser.add_argument("--device", default="0", help="a device's name or number")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        serve(given.serve)
        return 0
    worker = Worker(given.device)
    rows: list[Case] = []
    for memory in [given.memory] if given.memory else MEMORIES:
        rows += cases(memory, worker.run(Case(memory))["calls"])
    rows = [row for row in rows if given.command in (None, row.command)]
    if given.count and given.count < len(rows):
        rows = [rows[k * len(rows) // given.count] for k in range(given.count)]
    total: collections.Counter[str] = collections.Counter()
    for row in rows:
        found = worker.run(row)
        total["cases"] += 1
        kind = "documented error" if found["said"] else "recovered"
        total[kind if found["injected"] else "not reached"] += 1
        total["wrong"] += bool(found["wrong"])
        if found["wrong"]:
            name = vk.RESULT_NAMES.get(row.result, str(row.result))
            last = " lasting" if row.lasting else ""
            print(f"{row.memory} {row.command} call {row.number} {name}{last}:")
            for text in [*found["wrong"], f"said: {found['said']}"]:
                print(f"    {text}", flush=True)
    worker.close()
    pairs = {(row.command, row.result) for row in rows}
    print(f"{len(pairs)} pairs of command and result; {dict(total)}")
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
