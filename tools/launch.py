"""Command that runs a program in several processes, one a device, through mpirun.

    python -m vkbackend.tools.launch -n 2 train.py --epochs 3
    python -m vkbackend.tools.launch -n 2 -m package.train

Each line of output begins with the rank. The program finds its rank by
`fw.distributed.init()`, and in the variables `RANK`, `LOCAL_RANK` and `WORLD_SIZE`. A
rank that fails ends the others. It needs `pip install 'vkbackend[mpi]'`.
"""

import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence

from vkbackend.framework.communication.launcher import launch

from .exit_status import REFUSED, outcome
from .run_script import missing


def parser() -> ArgumentParser:
    """Return the parser of the command's arguments."""
    found = ArgumentParser(
        prog="python -m vkbackend.tools.launch",
        description="Run a program in several processes, one a device.",
    )
    add = found.add_argument
    add("-n", "--processes", type=int, required=True, help="how many")
    add("--hosts", default="", help="machines, with commas between them")
    add("--plain", action="store_true", help="do not begin lines with the rank")
    add("-m", "--module", action="store_true", help="the program is a module's name")
    add("program", help="a file of Python, or a module's name")
    add("arguments", nargs=REMAINDER, help="its arguments")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program, and return its status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    options = parser().parse_args(arguments)
    return outcome("launch", lambda: _launch(options))


def _launch(options: Namespace) -> int:
    reason = missing(options.program)
    if reason or options.processes < 1:
        reason = reason or f"-n is {options.processes}; it must be at least 1"
        print(f"launch: {reason}", file=sys.stderr)
        return REFUSED
    kind = ["-m"] if options.module else []
    command = [sys.executable, *kind, options.program, *options.arguments]
    return launch(command, options.processes, hosts=options.hosts, plain=options.plain)


if __name__ == "__main__":
    sys.exit(main())
