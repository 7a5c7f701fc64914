"""Mixed precision at PyTorch's older address; see `amp`."""

from ..amp import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
