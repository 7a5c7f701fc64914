"""Optimizers, learning-rate schedulers, gradient clipping."""

from .adam import Adam, AdamW
from .clip import clip_grad_norm_
from .optimizer import Optimizer
from .scaler import GradScaler
from .scheduler import CosineAnnealingLR, LRScheduler, StepLR
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
]
