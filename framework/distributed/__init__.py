"""Several processes in one computation: there is one, which is what this says.

Programs that ask before they communicate run unchanged, as on a build of PyTorch whose
group was not initialised. The group of the one process can be initialised: what is
sent within it arrives, and several processes raise `NotImplementedError`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..base.late_modules import give_attributes as _give_attributes
from ..base.public_names import public_names as _public_names
from ..nn.gradient_bucket import GradBucket as GradBucket
from .collectives import *  # noqa: F403 - its public names
from .collectives import __all__ as _collectives
from .device_mesh import *  # noqa: F403 - its public names
from .device_mesh import __all__ as _meshes
from .process_group import *  # noqa: F403 - its public names
from .process_group import __all__ as _groups

__all__ = sorted(["GradBucket", *_collectives, *_groups, *_meshes])


def __getattr__(name: str) -> Any:
    """Return one of PyTorch's addresses below this one."""
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())


_give_attributes(__name__)
