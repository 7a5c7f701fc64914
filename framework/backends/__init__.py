"""Backends as PyTorch's programs ask for them, with the switches that they set."""

from . import cuda as cuda
from . import cudnn as cudnn
from . import mps as mps
from .libraries import mha, mkl, mkldnn, openmp, opt_einsum, quantized

__all__ = [
    "cuda",
    "cudnn",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
]
