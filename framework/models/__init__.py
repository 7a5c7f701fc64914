"""Models by family, read from checkpoints, and text generated with them."""

from ..base.public_names import public_names as _public_names
from .cache import KeyValueCache as KeyValueCache
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import open_checkpoint as open_checkpoint
from .config import ModelConfig as ModelConfig
from .gemma import Gemma as Gemma
from .generation import generate as generate
from .gpt2 import GPT2 as GPT2
from .llama import Llama as Llama
from .loading import load as load
from .qwen import Qwen as Qwen

__all__ = [
    "GPT2",
    "Checkpoint",
    "Gemma",
    "KeyValueCache",
    "Llama",
    "ModelConfig",
    "Qwen",
    "generate",
    "load",
    "open_checkpoint",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
