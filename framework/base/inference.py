"""Inference mode: the storages made in it are those of inference tensors.

Such tensors are never saved for `backward`, nor changed in place outside of the mode,
so that nothing has to watch their versions. A storage knows that it is one by a version
below 0.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from vkbackend import fork_safety

from .errors import GradError
from .scoped_setting import ScopedSetting, ScopeFrame, SettingScope

FIRST = -(1 << 62)
"""Version of an inference tensor that was not changed in place."""

mode = ScopedSetting(False)
"""Whether the thread is in a block of `inference_mode`."""

blocks = 0
"""Blocks entered in all threads: a quick test for the common case of none."""

used = False
"""Whether there has been a block: a quick test for programs without any."""

# A plain counter would stay wrong after an interrupt beside its update.
_counted: set[ScopeFrame] = set()
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


class InferenceScope(SettingScope):
    """Block in which storages are those of inference tensors, or are not."""

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Count the block."""
        global blocks, used
        used = True
        with _counting:
            _counted.add(scope_frame)
            blocks = len(_counted)

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Uncount the block."""
        global blocks
        with _counting:
            _counted.discard(scope_frame)
            blocks = len(_counted)


def first_version() -> int:
    """Return the version of a storage that is made now by this thread."""
    return FIRST if mode.top.value else 0


def refuse_saving(name: str) -> None:
    """Raise `GradError`: an op would save an inference tensor."""
    raise GradError(
        f"{name}: a tensor that was made in inference_mode would be saved for backward;"
        " use x.clone(), or make it under no_grad()"
    )


def check_change(array: Any) -> None:
    """Raise `GradError` if an inference tensor is changed outside of the mode."""
    if array.version < 0 and not mode.top.value:
        raise GradError(
            "in place: the tensor was made in inference_mode, and is changed outside of"
            " it; change a copy, x.clone()"
        )
