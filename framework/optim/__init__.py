"""Optimizers, learning-rate schedulers, averaging, gradient clipping."""

from ..base.late_modules import give_attributes as _give_attributes
from ..base.public_names import public_names as _public_names
from . import lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .adam_variants import LAMB, Adamax, Lion, NAdam, RAdam
from .clip_grad import clip_grad_norm_
from .grad_scaler import GradScaler
from .lbfgs import LBFGS
from .lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR
from .matrix import Adafactor, Muon
from .optimizer import Optimizer
from .rmsprop import Adadelta, Adagrad, RMSprop
from .rprop import ASGD, Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam
from .trainer import Trainer
from .training import Callback, History, evaluate

__all__ = [
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Callback",
    "CosineAnnealingLR",
    "GradScaler",
    "History",
    "LRScheduler",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "StepLR",
    "Trainer",
    "clip_grad_norm_",
    "evaluate",
    "lr_scheduler",
    "swa_utils",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals(), "lr_scheduler swa_utils")


_give_attributes(__name__)
