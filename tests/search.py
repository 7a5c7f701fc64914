"""Searches for random programs that fail, and the command line they share.

A failure is shrunk to a short program and printed; the search then goes on.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device

AT_A_TIME = 100
"""Programs of one search; each ends at its first failure."""


def search(
    programs: SearchStrategy[Any],
    check: Callable[[Any], None],
    count: int,
    number: int,
    shrink: bool = True,
) -> None:
    """Try programs; raise AssertionError with the shortest that fails.

    Parameters
    ----------
    programs : SearchStrategy
        Draws a program.
    check : callable
        Raises AssertionError if a program fails.
    count : int
        Programs at most.
    number : int
        Seed of the draws.
    shrink : bool, default True
        Whether to look for a shorter program that fails as well.
    """

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, *([Phase.shrink] if shrink else [])),
    )
    @given(programs)
    def agree(program: Any) -> None:
        check(program)

    agree()


def search_on(
    programs: SearchStrategy[Any], check: Callable[[Any], None], count: int, number: int
) -> int:
    """Search on after each failure, which is printed; return how many there were."""
    failures = 0
    for part in range(-(-count // AT_A_TIME)):
        some = min(AT_A_TIME, count - part * AT_A_TIME)
        try:
            search(programs, check, some, (number << 32) + part)
        except AssertionError as error:
            failures += 1
            print(f"part {part}: {error}\n", flush=True)
    return failures


def parser(module: str, count: int) -> argparse.ArgumentParser:
    """Return the options of every search."""
    options = argparse.ArgumentParser(prog=f"python -m {module}")
    options.add_argument("--count", type=int, default=count, help="programs in all")
    options.add_argument("--seed", type=int, default=0, help="which programs")
    options.add_argument("--device", help="a device's name or number; default the best")
    return options


def compare_devices(
    module: str,
    programs: SearchStrategy[Any],
    check: Callable[[Any, Sequence[Device]], None],
    arguments: Sequence[str] | None,
) -> int:
    """Search on the host and a device; return the exit status, 0 if all agreed."""
    chosen = parser(module, 200).parse_args(arguments)
    devices = [fw.device("cpu")]
    if chosen.device != "cpu":
        devices.append(fw.device(chosen.device))
    start = time.monotonic()
    failures = search_on(
        programs, lambda program: check(program, devices), chosen.count, chosen.seed
    )
    seconds = time.monotonic() - start
    names = ", ".join(device.name for device in devices)
    print(f"{chosen.count} programs, {failures} failures, {seconds:.0f} s, on {names}")
    return 1 if failures else 0
