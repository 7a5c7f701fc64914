"""Random programs: device, host and PyTorch must agree on values and gradients.

    python -m tests.random_programs                          200 programs
    python -m tests.random_programs --count 20000 --seed 7   so many, of another seed
    python -m tests.random_programs --device cpu             on the host alone

A failure is shrunk to a short program and printed; the search then goes on. The exit
status says whether there was one. Kernels are kept: a software device takes about half
a mebibyte of memory for each program.
"""

import sys
from collections.abc import Sequence

from tests.program import check
from tests.program_steps import programs
from tests.search import compare_devices


def main(arguments: Sequence[str] | None = None) -> int:
    """Search as the command line says; the exit status is 0 if all agreed."""
    return compare_devices("tests.random_programs", programs(), check, arguments)


if __name__ == "__main__":
    sys.exit(main())
