"""Layers, losses, and the module they are made of."""

from . import functional, init
from .activation import GELU, LeakyReLU, ReLU, Sigmoid, SiLU, Tanh
from .attention import MultiheadAttention
from .container import ModuleList, Sequential
from .conv import Conv2d
from .dropout import Dropout, Dropout1d, Dropout2d
from .embedding import Embedding
from .flatten import Flatten
from .group_norm import GroupNorm
from .linear import Identity, Linear
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from .module import Module
from .normalize import BatchNorm1d, BatchNorm2d
from .parameter import Parameter
from .pool import MaxPool2d
from .row_norm import LayerNorm, RMSNorm

__all__ = [
    "GELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Tanh",
    "functional",
    "init",
]
