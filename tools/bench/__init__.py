"""Benchmarks against PyTorch or NumPy, interleaved in one process.

`python -m vkbackend.tools.bench` runs them all, prints a table, and adds a line of JSON
for each to `results/`.
"""

from .cli import main

__all__ = ["main"]
