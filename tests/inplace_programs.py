"""Random programs of views and changes in place: both devices, `jit` and PyTorch agree.

    python -m tests.inplace_programs                         200 programs
    python -m tests.inplace_programs --count 5000 --seed 7   so many, of another seed
    python -m tests.inplace_programs --device cpu            on the host alone

A program runs eagerly on the host and on the device, with gradients, and there several
times under `jit`, where what it changes in place is the state of the next call.
Failures are shrunk and printed; the exit status says whether there was one.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.inplace_program import InPlaceProgram, function, in_torch, is_small
from tests.inplace_steps import inplace_programs
from tests.program import Step, call
from tests.search import compare_devices
from vkbackend.framework.base.device import Device, GpuDevice

CALLS = 3
"""Calls of a function under `jit`: one is traced, the others are replayed."""


def run(
    program: InPlaceProgram,
    inputs: Sequence[Any],
    compute: Callable[[Step, Sequence[Any]], Any],
    reads: bool,
) -> list[Any]:
    """Return the values of a program, None for those that were let go of."""
    values = list(inputs)
    for step in program.steps:
        values.append(compute(step, values))
        if step.name == "drop":
            values[step.arguments[0].number] = None
        elif step.name == "read" and reads:
            values[-1].detach().numpy()
    return values


def elements(values: Sequence[Any]) -> list[np.ndarray | None]:
    """Return copies of the elements of tensors."""
    return [
        None if value is None else np.array(value.detach().numpy()) for value in values
    ]


def slopes(values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the gradients of the inputs by all values, each times its number."""
    total: Any = None
    for number, value in enumerate(values):
        if value is not None and value.requires_grad:
            term = (value.float() * (number % 3 + 1)).sum()
            total = term if total is None else total + term
    if total is not None and total.requires_grad:
        total.backward()
    return [None if x.grad is None else np.array(x.grad.numpy()) for x in inputs]


def differ(name: str, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raise AssertionError at the first value that is not what it must be."""
    for number, (ours, theirs) in enumerate(zip(found, wanted)):
        assert (ours is None) == (theirs is None), f"{name}: v{number} is {ours}"
        if ours is not None:
            assert ours.dtype == theirs.dtype, f"{name}: v{number} is {ours.dtype}"
            np.testing.assert_array_equal(ours, theirs, f"{name}: v{number}")


def exact(
    program: InPlaceProgram,
) -> tuple[list[Any], list[Any], list[list[Any]]]:
    """Return PyTorch's values and gradients, and its values call after call.

    Calls end where numbers become too large to be exact.
    """

    def inputs(grad: bool) -> list[torch.Tensor]:
        return [
            torch.tensor(data, requires_grad=grad and each.grad)
            for data, each in zip(program.data(), program.inputs)
        ]

    first = inputs(True)
    values = run(program, first, in_torch, False)
    results, gradients = elements(values), slopes(values, first)
    state, calls = inputs(False), []
    for _ in range(CALLS if program.is_static else 0):
        values = run(program, state, in_torch, False)
        if not all(is_small(value) for value in values if value is not None):
            break
        calls.append(elements(values))
    return results, gradients, calls


def check(program: InPlaceProgram, devices: Sequence[Device]) -> None:
    """Compare every device with PyTorch; an AssertionError shows the program."""
    results, gradients, calls = exact(program)
    for device in devices:
        try:
            check_eager(program, device, results, gradients)
            if isinstance(device, GpuDevice) and program.is_static:
                check_jitted(program, device, calls)
        except Exception as error:
            text = f"on {device.name}: {type(error).__name__}: {error}\n{program!r}"
            raise AssertionError(text) from error


def made(program: InPlaceProgram, device: Device, grad: bool) -> list[fw.Tensor]:
    """Return the inputs on a device."""
    return [
        fw.tensor(data, None, device, grad and each.grad)
        for data, each in zip(program.data(), program.inputs)
    ]


def computed_on(device: Device) -> Callable[[Step, Sequence[Any]], Any]:
    """Return a function that computes a step.

    It makes an index once: one is uploaded, which a trace does only once.
    """

    @functools.cache
    def made_once(at: tuple[int, ...]) -> fw.Tensor:
        return fw.tensor(np.asarray(at, np.int64), device=device)

    def index(at: Sequence[int]) -> fw.Tensor:
        return made_once(tuple(at))

    return lambda step, values: call(step, function(step.name, fw), values, index)


def check_eager(
    program: InPlaceProgram, device: Device, results: list[Any], gradients: list[Any]
) -> None:
    """Compare one run and its gradients."""
    inputs = made(program, device, True)
    values = run(program, inputs, computed_on(device), True)
    differ("eager", elements(values), results)
    for number, (ours, theirs) in enumerate(zip(slopes(values, inputs), gradients)):
        if theirs is not None and (ours is not None or theirs.any()):
            np.testing.assert_array_equal(ours, theirs, f"gradient of v{number}")


def check_jitted(
    program: InPlaceProgram, device: GpuDevice, calls: list[list[Any]]
) -> None:
    """Compare calls under `jit`, what they return and what they leave."""
    inputs = made(program, device, False)
    state = [None if each.fed else x for x, each in zip(inputs, program.inputs)]
    compute = computed_on(device)
    run(program, made(program, device, False), compute, False)

    @fw.jit
    def step(*fed: fw.Tensor) -> list[fw.Tensor | None]:
        rest = iter(fed)
        given = [next(rest) if x is None else x for x in state]
        return run(program, given, compute, False)

    fed = [x for x, each in zip(inputs, program.inputs) if each.fed]
    with fw.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, wanted in enumerate(calls):
            found = step(*fed)
            differ(f"call {number} under jit", elements(found), wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search as the command line says; the exit status is 0 if all agreed."""
    programs = inplace_programs()
    return compare_devices("tests.inplace_programs", programs, check, arguments)


if __name__ == "__main__":
    sys.exit(main())
