"""Exceptions of the framework, beside those of the device layer.

Error (vkbackend.errors)
├── ShapeError (ValueError, RuntimeError)   shapes or dimensions that do not fit
│   ├── IndexRangeError (IndexError)   an index or dimension that is not there
│   └── DatasetError (TypeError, AssertionError)   datasets that do not fit
├── DomainError (RuntimeError) a number for which an op has no value
├── DTypeError (TypeError, RuntimeError, NotImplementedError)   a dtype not taken
│   ├── IndexDTypeError (IndexError)   indices that are no integers or bools
│   └── Float8Error   floats of 8 bits, which are only stored
├── LinAlgError (RuntimeError) a matrix that has no such factors or solution
├── GradError (RuntimeError)   a gradient that cannot be computed
│   └── GradArgumentError (ValueError)   what a transform cannot take
├── DeviceMismatchError (RuntimeError)   tensors on different devices
├── TraceError (RuntimeError)  something that `jit` cannot replay
├── DistributedError (RuntimeError)   another process that ends or differs
├── StateError (RuntimeError)  a state that does not fit what loads it
├── GraphError (ValueError)     a node of a hand-built graph that does not fit or run
└── FileFormatError (ValueError, RuntimeError)   a file that is damaged or not known
    └── UnsafeFileError (UnpicklingError)   a file that asks to run code
"""

import pickle

from vkbackend.errors import Error


class ShapeError(Error, ValueError, RuntimeError):
    """Shapes, dimensions or indices that do not fit together."""


class IndexRangeError(ShapeError, IndexError):
    """An index or a dimension that is out of range."""


class DatasetError(ShapeError, TypeError, AssertionError):
    """Datasets or tensors that are no dataset together."""


class DomainError(Error, RuntimeError):
    """A number for which an op has no value, as a division of integers by zero."""


class LinAlgError(Error, RuntimeError):
    """A matrix that has no such factors or solution, as a singular one's inverse."""


class DTypeError(Error, TypeError, NotImplementedError):
    """A dtype that an op, or the device it runs on, does not support.

    PyTorch raises TypeError, RuntimeError or NotImplementedError, by the function.
    """


class IndexDTypeError(DTypeError, IndexError):
    """Indices of a dtype that is neither of integers nor of bools."""


class Float8Error(DTypeError):
    """An operation that computes was given floats of 8 bits, which are only stored."""


class GradError(Error, RuntimeError):
    """A gradient that cannot be computed."""


class GradArgumentError(GradError, ValueError):
    """An argument that a transform of functions, or its function, cannot take."""


class NoDataError(Error, TypeError, NotImplementedError):
    """Elements are read of a tensor that has none, as it is on the meta device."""


class DeviceMismatchError(Error, RuntimeError):
    """Tensors of one op on different devices."""


class TraceError(Error, RuntimeError):
    """Something inside a function under `jit` that cannot be replayed."""


class DistributedError(Error, RuntimeError):
    """Another process that has ended, or that asks for something else than this one."""


class StateError(Error, RuntimeError):
    """A state dict that does not fit the module or optimizer that loads it."""


class GraphError(Error, ValueError):
    """A node of a hand-built graph that does not fit, or that failed to run.

    Parameters
    ----------
    message : str
        The whole sentence.
    node : int
        The node's index.
    """

    def __init__(self, message: str, node: int) -> None:
        super().__init__(message)
        self.node = node


class FileFormatError(Error, ValueError, RuntimeError):
    """A file that is damaged, or of another format than the one it is read as."""


class UnsafeFileError(FileFormatError, pickle.UnpicklingError):
    """A file that asks for anything but data: loading it would run code."""
