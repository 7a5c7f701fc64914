"""Reproducibility of random programs and models, however the lazy graph is cut.

    python -m tests.reproducible                      100 programs and the models
    python -m tests.reproducible --count 500 --seed 7
    python -m tests.reproducible --models vit lstm --chains --size large

Each runs eagerly twice, under `jit`, and with the lazy graph submitted at random
places, after each operation among them. Values, gradients and parameters must have the
same bits. The exit status says whether they had.
"""

import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

import vkbackend.framework as fw
from tests.program import Program, compute, our_inputs
from tests.program_steps import programs
from tests.reproducible_chains import chains
from tests.reproducible_models import MODELS, Size, train
from tests.search import parser, search_on
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError

Answer = Sequence[np.ndarray | None]


class RandomLimit:
    """Stands for `GpuDevice.max_pending`: reached now and then, whatever is pending."""

    def __init__(self, chance: float, number: int) -> None:
        self._chance = chance
        self._random = random.Random(number)

    def __le__(self, pending: int) -> bool:
        return self._random.random() < self._chance

    def __rmul__(self, factor: int) -> "RandomLimit":
        return self

    def __gt__(self, most: int) -> bool:
        return False

    __ge__ = __gt__

    def __index__(self) -> int:
        return 1 + int(self._random.expovariate(self._chance))


class FixedLimit(int):
    """A limit of `GpuDevice.max_pending` that does not grow."""

    def __rmul__(self, factor: int) -> "FixedLimit":
        return self


@contextmanager
def cutting(device: Device, limit: object) -> Iterator[None]:
    """Submit the lazy graph of a Vulkan device where a limit says so."""
    if not isinstance(device, GpuDevice):
        yield
        return
    usual = device.first_submitted
    # A limit is compared with integers, and need not be one.
    device.first_submitted = device.max_pending = limit  # type: ignore[assignment]
    try:
        yield
    finally:
        device.first_submitted = device.max_pending = usual


CUTS: dict[str, Callable[[int], object]] = {
    "cut after each operation": lambda number: FixedLimit(1),
    "cut after every third": lambda number: FixedLimit(3),
    "cut at random": lambda number: RandomLimit(0.3, number),
    "cut seldom": lambda number: RandomLimit(0.05, number),
}


def differing(first: Answer, other: Answer) -> list[str]:
    """Return which arrays differ in a bit, and by how much; NaN equals NaN."""
    found = []
    for k, (one, two) in enumerate(itertools.zip_longest(first, other)):
        if one is None or two is None:
            if one is not two:
                found.append(f"array {k} is missing in one")
            continue
        same = (one == two) | ((one != one) & (two != two))
        same &= np.signbit(one) == np.signbit(two)
        if not np.all(same):
            with np.errstate(all="ignore"):
                gap = np.nanmax(np.abs(one.astype("f8") - two.astype("f8")))
            count = np.size(same) - np.count_nonzero(same)
            found.append(f"array {k}: {count} of {one.size} differ, by up to {gap:.3g}")
    return found


def run_program(program: Program, device: Device, jitted: bool) -> Answer:
    """Return the values and gradients of a program."""
    inputs = our_inputs(program, device)

    def results() -> Sequence[fw.Tensor | None]:
        for each in inputs:
            each.grad = None
        values, gradients = compute(program, inputs, device)
        return [*values, *gradients]

    step = fw.jit(results) if jitted else results
    for _ in range(2 if jitted else 1):
        found = step()
    return [each if each is None else each.numpy() for each in found]


def check_program(program: Program, device: Device) -> None:
    """Raise AssertionError if a program has another result in some way."""
    found = check_ways(device, lambda jitted: run_program(program, device, jitted))
    assert not found, f"{'; '.join(found)}\n{program!r}"


def check_ways(device: Device, run: Callable[[bool], Answer]) -> list[str]:
    """Return in which ways a run, which is told whether to be jitted, differs."""
    expected = run(False)
    found = {
        "again": differing(expected, run(False)),
        "jitted": differing(expected, run(True)),
    }
    for number, (way, limit) in enumerate(CUTS.items()):
        with cutting(device, limit(number)):
            found[way] = differing(expected, run(False))
    return [
        f"{way}: {len(rows)} of {len(expected)} arrays, {rows[0]}"
        for way, rows in found.items()
        if rows
    ]


def check_or_refuse(device: Device, run: Callable[[bool], Answer]) -> list[str]:
    """Return what `check_ways` does; nothing where the device has not the dtype."""
    try:
        return check_ways(device, run)
    except DTypeError as error:
        print(f"left out: {error}")
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Check as the command line says; the exit status is 0 if all had one result."""
    options = parser("tests.reproducible", 100)
    options.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    options.add_argument("--chains", action="store_true", help="chains of operations")
    options.add_argument("--size", choices=("small", "large"), default="small")
    options.add_argument("--steps", type=int, default=6, help="of each training")
    options.add_argument(
        "--dtypes", nargs="*", default=["float32", "bfloat16"], help="of autocast"
    )
    chosen = options.parse_args(arguments)
    device = fw.device(chosen.device)
    failures, start = 0, time.monotonic()
    large = chosen.size == "large"
    for chain in chains(large) if chosen.chains else ():
        found = check_or_refuse(
            device, lambda jitted, chain=chain: chain.run(device, jitted)
        )
        failures += bool(found)
        if found:
            print(f"{chain}: {found}", flush=True)
    print(f"chains: {time.monotonic() - start:.0f} s", flush=True)
    for name, dtype in itertools.product(chosen.models, chosen.dtypes):
        size = Size(large, dtype)
        found = check_or_refuse(
            lambda jitted, name=name, size=size: train(
                name, size, chosen.steps, device, jitted
            )
        )
        failures += bool(found)
        seconds = time.monotonic() - start
        print(f"{name} {dtype}: {found or 'one result'} ({seconds:.0f} s)", flush=True)
    failures += search_on(
        programs(),
        lambda program: check_program(program, device),
        chosen.count,
        chosen.seed,
    )
    seconds = time.monotonic() - start
    print(f"{chosen.count} programs, {failures} failures, {seconds:.0f} s, on {device}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
