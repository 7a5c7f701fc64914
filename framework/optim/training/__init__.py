"""Training of a model over epochs: loop, evaluation, history, checkpoints."""

from .callback import Callback
from .evaluate import evaluate
from .history import History

__all__ = ["Callback", "History", "evaluate"]
