"""Mixed precision: blocks of 16-bit products, and the scaling of losses."""

from ..base.late_modules import give_attributes as _give_attributes
from ..base.modes import autocast, is_autocast_available
from ..base.public_names import public_names as _public_names
from ..optim.grad_scaler import GradScaler
from .custom import custom_bwd, custom_fwd

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())


_give_attributes(__name__)
