"""Worker process of `subprocess_runner`; it may crash or hang, as expected."""

import contextlib
import faulthandler
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from . import probes, selftest

Answer = dict[str, Any]


def main(requests: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Answer requests on standard output, one line of JSON each, and end."""
    channel = _private_output()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    known = {**probes.PROBES, **selftest.TESTS}
    channel.write("\n")  # from here on the time is a probe's
    channel.flush()
    for name, arguments in requests:
        channel.write(json.dumps(answer(known[name], arguments)) + "\n")
        channel.flush()
    # A driver that breaks when the process ends was asked for that by a test.
    os._exit(0)


def _private_output() -> IO[str]:
    """Return standard output as it was; what drivers print goes to stderr now."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def answer(probe: Callable[..., Any], arguments: Mapping[str, Any]) -> Answer:
    """Return what a probe says, as the members of `subprocess_runner.Outcome`.

    Parameters
    ----------
    probe : callable
        Returns a value for JSON, or raises.
    arguments : mapping
        Its keyword arguments.
    """
    start = time.perf_counter()
    said: Answer = {"status": "ok"}
    try:
        said["value"] = probe(**arguments)
    except selftest.CaseSkipped as reason:
        said = {"status": "skipped", "reason": str(reason)}
    except Exception as error:
        text = str(error) or "no message"
        if not type(error).__module__.startswith("vkbackend"):
            text = f"{type(error).__name__}: {text}"
        said = {"status": "failed", "reason": text}
    said["seconds"] = time.perf_counter() - start
    return said
