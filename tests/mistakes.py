"""Mistakes of users: what they call, written for either library."""

import contextlib
import io
import warnings
from types import ModuleType
from typing import Any

import numpy as np


def scope(library: ModuleType) -> dict[str, Any]:
    """Return the names that the calls use: the library as `m`, its parts, tensors."""
    make = library.tensor
    library.manual_seed(0)
    return {
        "m": library,
        "nn": library.nn,
        "F": library.nn.functional,
        "U": library.nn.utils,
        "optim": library.optim,
        "S": library.optim.lr_scheduler,
        "D": library.utils.data,
        "np": np,
        "x": make([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]),
        "v": make([1.0, 2.0, 3.0]),
        "i": make([[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]),
        "b": make([[True, False, True, False]] * 3),
        "c3": library.ones(2, 3, 4),
        "g": make([1.0, 2.0, 3.0], requires_grad=True),
    }


def refusal(call: str, library: ModuleType) -> Exception | None:
    """Return what a call raises; lines of a program are separated by a written \\n."""
    names = scope(library)
    quiet = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        warnings.simplefilter("ignore")
        try:
            exec(call.replace("\\n", "\n"), names)
        except Exception as error:
            return error
    return None


def is_of(error: Exception | None, name: str) -> bool:
    """Return whether an error is of a class of that name."""
    return name in [each.__name__ for each in type(error).__mro__]
