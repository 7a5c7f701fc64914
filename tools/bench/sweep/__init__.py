"""Sweep: every function over shapes and dtypes, beside its peer.

`python -m vkbackend.tools.bench sweep` measures the time in a row and the time of a
call whose result is waited for at once, and prints means, counts and the worst cases.
"""

from .cli import main

__all__ = ["main"]
