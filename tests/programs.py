"""Random programs: device, host and PyTorch must agree on values and gradients.

    python -m tests.programs                              200 programs
    python -m tests.programs --count 20000 --seed 7       so many, of another seed
    python -m tests.programs --device cpu                 on the host alone

A failure is shrunk to a short program and printed; the search then goes on. The exit
status says whether there was one. Kernels are kept: a software device takes about half
a mebibyte of memory for each program.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from hypothesis import HealthCheck, given, seed, settings

import vkbackend.framework as fw
from tests.program import Program, check
from tests.program_steps import programs
from vkbackend.framework.device import Device

AT_A_TIME = 100
"""Programs of one search; each ends at its first failure."""


def search(count: int, number: int, devices: Sequence[Device]) -> None:
    """Try programs; raise AssertionError with the shortest that fails."""

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def agree(program: Program) -> None:
        check(program, devices)

    agree()


def main(arguments: Sequence[str] | None = None) -> int:
    """Search as the command line says; the exit status is 0 if all agreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs")
    parser.add_argument("--count", type=int, default=200, help="programs in all")
    parser.add_argument("--seed", type=int, default=0, help="which programs")
    parser.add_argument("--device", help="a device's name or number; default the best")
    given_ = parser.parse_args(arguments)
    devices = [fw.device("cpu")]
    if given_.device != "cpu":
        devices.append(fw.device(given_.device))
    start, failures = time.monotonic(), 0
    for part in range(-(-given_.count // AT_A_TIME)):
        count = min(AT_A_TIME, given_.count - part * AT_A_TIME)
        try:
            search(count, (given_.seed << 32) + part, devices)
        except AssertionError as error:
            failures += 1
            print(f"part {part}: {error}\n", flush=True)
    seconds = time.monotonic() - start
    names = ", ".join(device.name for device in devices)
    print(f"{given_.count} programs, {failures} failures, {seconds:.0f} s, on {names}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
