"""Mixed precision: blocks of 16-bit products, and the scaling of losses."""

from ..base.modes import autocast, is_autocast_available
from ..optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "is_autocast_available"]
