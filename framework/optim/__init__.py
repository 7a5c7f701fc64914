"""Optimizers, learning-rate schedulers, gradient clipping."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .clip_grad import clip_grad_norm_
from .grad_scaler import GradScaler
from .lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR
from .optimizer import Optimizer
from .sgd import SGD
from .trainer import Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CosineAnnealingLR",
    "GradScaler",
    "LRScheduler",
    "Optimizer",
    "StepLR",
    "Trainer",
    "clip_grad_norm_",
    "lr_scheduler",
]
