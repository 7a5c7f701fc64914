"""Mixed precision at PyTorch's older address; see `amp`."""

from ..amp import GradScaler, autocast, custom_bwd, custom_fwd
from ..base.late_modules import give_attributes as _give_attributes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

# A package for Python, as PyTorch's has `cuda.amp.grad_scaler` below it.
__path__: list[str] = []

_give_attributes(__name__)
