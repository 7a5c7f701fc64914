"""Child process of `offline`: opens the null device, answers what it compiles.

It writes pickles to standard output: the device's properties, then for each kernel that
it reads the executable, the problem, and whether it was refused before compilation.
"""

import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace

from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.physical_device import choose
from vkbackend.errors import ArgumentError, Error, ShaderError

from .driver_statistics import PipelineExecutable, executables
from .module import Constant


def main() -> None:
    """Answer the request on standard input."""
    # Drivers may print; what they print must not come between the answers.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        logical = LogicalDevice(choose())
        logical.open()
        pickle.dump(logical.info, answers)
        answers.flush()
        try:
            # Written by the parent.
            requests, representations = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        for words, constants in requests:
            executable, problem, refused = _compiled(logical, words, constants)
            if executable is not None and not representations:
                # They are asked for all the same: RADV 25.0 crashes otherwise.
                executable = replace(executable, representations=())
            pickle.dump((executable, problem, refused), answers)
            answers.flush()


def _compiled(
    logical: LogicalDevice, words: bytes, constants: Mapping[str, Constant]
) -> tuple[PipelineExecutable | None, str, bool]:
    try:
        found = executables(logical, words, constants)
    except (ShaderError, ArgumentError) as error:
        return None, str(error), True
    except Error as error:
        return None, str(error), False
    (executable,) = found
    return executable, "", False
