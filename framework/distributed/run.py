"""PyTorch's launcher `torchrun`, for the one process that there is.

    python -m vkbackend.framework.distributed.run train.py --epochs 3

The script runs in a process of its own whose environment names it the only one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence

__all__ = ["get_args_parser", "main", "run"]


def get_args_parser() -> ArgumentParser:
    """Return the parser of the launcher's arguments."""
    parser = ArgumentParser(prog="run", description="Run a script as the only process.")
    add = parser.add_argument
    add("--nnodes", default="1:1", help="machines, or the least and most: 1")
    names = ["--nproc-per-node", "--nproc_per_node"]
    add(*names, default="1", help="processes: 1, auto or gpu")
    add("--standalone", action="store_true", help="without effect")
    for name, default in _UNUSED.items():
        names = [f"--{name}", f"--{name.replace('-', '_')}"]
        add(*dict.fromkeys(names), default=default, help="without effect")
    add("--master-addr", "--master_addr", default="127.0.0.1", help="MASTER_ADDR")
    add("--master-port", "--master_port", default=29500, type=int, help="MASTER_PORT")
    add("-m", "--module", action="store_true", help="the script is a module's name")
    add("--no-python", "--no_python", action="store_true", help="it is a program")
    add("training_script", help="what runs")
    add("training_script_args", nargs=REMAINDER, help="its arguments")
    return parser


_UNUSED = {
    "node-rank": "0",
    "rdzv-backend": "static",
    "rdzv-endpoint": "",
    "rdzv-id": "none",
    "rdzv-conf": "",
    "max-restarts": "0",
    "monitor-interval": "0.1",
    "start-method": "spawn",
    "role": "default",
    "log-dir": None,
    "redirects": "0",
    "tee": "0",
    "local-ranks-filter": "",
}
"""Options that choose among processes or machines, and their defaults."""


def run(args: Namespace) -> None:
    """Run a script as the only process, and wait for its end.

    Parameters
    ----------
    args : Namespace
        As `get_args_parser` makes it.

    Raises
    ------
    NotImplementedError
        If several processes or machines are asked for.
    subprocess.CalledProcessError
        If the script ends with another status than 0.
    """
    most = args.nnodes.rpartition(":")[2]
    if most != "1" or args.nproc_per_node not in ("1", "auto", "gpu"):
        raise NotImplementedError(
            f"run: {args.nproc_per_node} processes on {args.nnodes} machines are asked"
            " for; one process computes on one device, so leave --nproc-per-node and"
            " --nnodes out"
        )
    command = [args.training_script, *args.training_script_args]
    if args.module and args.no_python:
        raise ValueError("run: --module and --no-python are given; one of them only")
    if not args.no_python:
        command = [sys.executable, "-u", *(["-m"] if args.module else []), *command]
    subprocess.run(command, env={**os.environ, **environment(args)}, check=True)


def environment(args: Namespace) -> dict[str, str]:
    """Return what the script finds in its environment.

    Parameters
    ----------
    args : Namespace
    """
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK"), "0")
    sizes = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE")
    return {
        **ranks,
        **dict.fromkeys(sizes, "1"),
        "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": str(args.master_port),
        "TORCHELASTIC_RUN_ID": uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts),
    }


def main(args: Sequence[str] | None = None) -> None:
    """Run the script that the arguments name.

    Parameters
    ----------
    args : sequence of str, optional
        By default those of the command line.
    """
    run(get_args_parser().parse_args(args))


if __name__ == "__main__":
    main()
