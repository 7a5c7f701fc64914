"""PyTorch's launcher `torchrun`, for processes of one machine.

    python -m vkbackend.framework.distributed.run --nproc-per-node 2 train.py

One process runs with an environment that names it the only one; mpirun starts several.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence

from ..communication.launcher import launch

__all__ = ["get_args_parser", "main", "run"]


def get_args_parser() -> ArgumentParser:
    """Return the parser of the launcher's arguments."""
    parser = ArgumentParser(prog="run", description="Run a script in processes.")
    add = parser.add_argument
    add("--nnodes", default="1:1", help="machines, or the least and most: 1")
    names = ["--nproc-per-node", "--nproc_per_node"]
    add(*names, default="1", help="processes; auto and gpu are 1")
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
    """Run a script in as many processes as are asked for, and wait for their end.

    Parameters
    ----------
    args : Namespace
        As `get_args_parser` makes it.

    Raises
    ------
    DistributedError
        If there is no mpi4py or mpirun for several processes.
    NotImplementedError
        If several machines are asked for.
    subprocess.CalledProcessError
        If the script ends with another status than 0.
    ValueError
        If the number of processes is none.
    """
    most = args.nnodes.rpartition(":")[2]
    if most != "1":
        raise NotImplementedError(
            f"run: {args.nnodes} machines are asked for; name them to"
            " python -m vkbackend.tools.launch --hosts"
        )
    count = 1 if args.nproc_per_node in ("auto", "gpu") else int(args.nproc_per_node)
    command = [args.training_script, *args.training_script_args]
    if args.module and args.no_python:
        raise ValueError("run: --module and --no-python are given; one of them only")
    if not args.no_python:
        command = [sys.executable, "-u", *(["-m"] if args.module else []), *command]
    variables = environment(args)
    if count == 1:
        subprocess.run(command, env={**os.environ, **variables}, check=True)
        return
    variables = {k: v for k, v in variables.items() if k not in _OF_EACH_RANK}
    status = launch(command, count, variables=variables)
    if status:
        raise subprocess.CalledProcessError(status, command)


_OF_EACH_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


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
