"""`SummaryWriter` of the package `tensorboardX`, where it is installed."""

from __future__ import annotations

try:
    from tensorboardX import SummaryWriter
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "utils.tensorboard: no package tensorboardX; `pip install tensorboardX` brings"
        " a SummaryWriter that takes arrays: pass tensor.numpy()",
        name="tensorboardX",
    ) from error

__all__ = ["SummaryWriter"]
