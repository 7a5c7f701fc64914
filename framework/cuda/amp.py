"""Mixed precision at PyTorch's older address; see `amp`."""

from ..amp import GradScaler, autocast, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
