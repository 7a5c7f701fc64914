"""Doctor: inventory of Vulkan on this machine, diagnosis and remedies.

Command line: `vkdoctor`, or `python -m vkbackend.tools.doctor`. The exit status is 0
when the library can work. What is printed is what a bug report should carry: no
secrets, and paths of the user only with `--paths`.

Nothing that could break runs in the doctor's own process: `subprocess_runner` asks
probes in children, `report` gathers the answers, `diagnosis` finds the problems in them
(a pure function), `render` and `redact` make them fit to be shown.
"""

from .cli import main

__all__ = ["main"]
