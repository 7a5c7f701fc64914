"""Offline compilation for AMD GPUs: their compiler on a machine without such a card.

RADV, Mesa's driver of AMD GPUs, opens a *null device* where a variable names a GPU
family: it has the family's properties, compiles for it, and can run nothing. A child
process does so, for drivers are chosen before the Vulkan loader is loaded, and a
compiler that crashes must end nothing else.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vkbackend import config
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.errors import ArgumentError

from .. import drivers
from .driver_statistics import PipelineExecutable
from .target import Target

FAMILIES = {
    "polaris10": "GCN 4: Radeon RX 470 to 590",
    "vega10": "GCN 5: Radeon RX Vega, Instinct MI25",
    "navi10": "RDNA 1: Radeon RX 5600 and 5700",
    "navi21": "RDNA 2: Radeon RX 6800 and 6900",
    "navi31": "RDNA 3: Radeon RX 7900",
    "gfx1151": "RDNA 3.5: Radeon 8060S (Strix Halo)",
    "gfx1201": "RDNA 4: Radeon RX 9070",
}
"""GPU families by the names that Mesa's driver has for them."""

_WORKER = (
    "import sys; sys.path[:] = {path!r};"
    "from vkbackend.tools.spirv.offline_worker import main; main()"
)
_TAIL = 300


@dataclass(frozen=True)
class CompiledKernel:
    """Kernel that a GPU family's compiler was given.

    Attributes
    ----------
    name : str
        The kernel and what makes the variant.
    executable : PipelineExecutable or None
        What the compiler says of it; None if it did not compile.
    problem : str
        Why it did not compile.
    refused : bool
        Whether it was not given to the compiler, for it needs what the family lacks.
    """

    name: str
    executable: PipelineExecutable | None
    problem: str = ""
    refused: bool = False

    def statistic(self, name: str) -> int:
        """Return a number of the compiler's, as "VGPRs"; 0 if it has none."""
        rows = self.executable.statistics if self.executable else ()
        return next((int(row.value) for row in rows if row.name == name), 0)

    @property
    def occupancy(self) -> int:
        """Subgroups that a SIMD unit can hold at once."""
        return self.statistic("Subgroups per SIMD")

    @property
    def spills(self) -> int:
        """Registers that did not fit and are kept in memory."""
        return self.statistic("Spilled VGPRs") + self.statistic("Spilled SGPRs")


def device_info(family: str) -> DeviceInfo:
    """Return the properties of a GPU family.

    Memory heaps and the period of timestamps are unknown: there is no device.

    Parameters
    ----------
    family : str
        A key of `FAMILIES`.

    Raises
    ------
    ArgumentError
        If there is no such family.
    DriverError
        If the driver cannot be fetched, or does not start.
    """
    with _worker(family) as process:
        return _info(family, process)


def compile_kernels(
    family: str, targets: Sequence[Target], *, representations: bool = False
) -> list[CompiledKernel]:
    """Compile kernels for a GPU family.

    Parameters
    ----------
    family : str
        A key of `FAMILIES`.
    targets : sequence of Target
        The kernels.
    representations : bool, default False
        Whether to return the machine code and the compiler's intermediate forms.

    Returns
    -------
    list of CompiledKernel
        In the order of the targets.

    Raises
    ------
    ArgumentError, DriverError
        As `device_info`.
    """
    found: list[CompiledKernel] = []
    while len(found) < len(targets):
        rest = targets[len(found) :]
        with _worker(family) as process:
            info = _info(family, process)
            requests = [(row.words, dict(row.constants)) for row in rest]
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                pickle.dump((requests, representations), process.stdin)
                process.stdin.close()
            for target, answer in zip(rest, _answers(process)):
                found.append(CompiledKernel(target.name, *answer))
        if len(found) < len(targets):
            blamed = targets[len(found)].name
            said = f"the compiler for {info.name} crashed: status {process.returncode}"
            found.append(CompiledKernel(blamed, None, said))
    return found


def _worker(family: str) -> "subprocess.Popen[bytes]":
    """Start a process with a family's null device."""
    if family not in FAMILIES:
        raise ArgumentError(
            f"target: {family!r} is no GPU family that can be compiled for; there are"
            f" {', '.join(FAMILIES)}"
        )
    settings = {
        **os.environ,
        **drivers.environment("radv"),
        "RADV_FORCE_FAMILY": family,
        # Neither another device nor layers, which expect one that runs.
        config.DEVICE.name: "",
        config.VALIDATION.name: "0",
    }
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER.format(path=sys.path)],
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _info(family: str, process: "subprocess.Popen[bytes]") -> DeviceInfo:
    """Return what a process says of its device, which it does first."""
    first = next(_answers(process), None)
    if isinstance(first, DeviceInfo):
        return first
    assert process.stderr is not None
    said = process.stderr.read().decode("utf-8", "replace").strip()
    raise drivers.DriverError(
        f"radv: the null device of {family} does not open: {said[-_TAIL:] or first}"
    )


def _answers(process: "subprocess.Popen[bytes]") -> Iterator[Any]:
    stream = process.stdout
    assert stream is not None
    while True:
        try:
            # Written by our own worker.
            yield pickle.load(stream)
        except EOFError:
            return
