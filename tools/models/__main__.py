"""Entry point of `python -m vkbackend.tools.models`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
