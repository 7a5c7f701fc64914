"""Backends as PyTorch's programs ask for them, with the switches that they set."""

from . import cuda as cuda
from . import cudnn as cudnn
from . import mps as mps
from .libraries import mkl, mkldnn, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
