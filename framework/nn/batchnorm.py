"""Batch normalisation layers, and the base that instance normalisation shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..autograd.engine import no_grad
from ..base import inference, trace_hooks
from ..base.device import CPU
from ..base.docstring import shares_parameters
from ..base.dtype import DTypeLike, int64
from ..base.errors import ShapeError
from ..base.process_group import refuse_several
from ..base.validation import as_int
from ..dispatch import batching
from ..ir.lazy_graph import Value
from ..tensor.factories import DeviceLike, ones, zeros
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class NormBase(Module):
    """Base of normalisation layers: scale, shift and running statistics of channels.

    Subclasses define the accepted shapes, and `forward`.
    """

    shapes: tuple[int, ...]
    expected: str
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.num_features = num_features = as_int(f"{name}: num_features", num_features)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        scale = Parameter(ones(num_features, **made)) if affine else None
        self.register_parameter("weight", scale)
        shifted = affine and bias
        shift = Parameter(zeros(num_features, **made)) if shifted else None
        self.register_parameter("bias", shift)
        tracked = track_running_stats
        mean = zeros(num_features, **made) if tracked else None
        variance = ones(num_features, **made) if tracked else None
        count = zeros((), dtype=int64, device=CPU) if tracked else None
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", variance)
        # Python reads it where `momentum` is None, so it never leaves the host.
        self.register_buffer("num_batches_tracked", count, on_host=True)

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0, and reset the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def check(self, input: Tensor) -> None:
        """Raise `ShapeError` if the layer does not accept the shape."""
        shape = input.layout.shape
        if len(shape) not in self.shapes or shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}: input is {tuple(input.shape)};"
                f" it must be {self.expected.format(self.num_features)}"
            )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum},"
            f" affine={self.affine}, bias={self.bias is not None},"
            f" track_running_stats={self.track_running_stats}"
        )


class _BatchCounter:
    """Batch counter, as a host action of a trace."""

    def __init__(self, module: NormBase) -> None:
        self._module = module

    def _count(self) -> Tensor:
        count = self._module.num_batches_tracked
        assert count is not None
        return count

    def __call__(self) -> None:
        _count_batch(self._count())

    def mark(self) -> Value:
        """Return the count so far."""
        return self._count().array.value

    def take_back(self, mark: Value) -> None:
        """Restore an earlier count."""
        count = self._count().array
        if count.value is not mark:
            count.rebind(mark)


def _count_batch(count: Tensor) -> None:
    """Add 1 to the number of batches."""
    array = count.array
    value = array.value
    counted = value.buffer
    if (
        type(counted) is np.ndarray
        and counted.shape == (1,)
        and value.dtype is int64
        and not (inference.used or batching.depth or trace_hooks.running)
    ):
        # What `add_` comes to, which takes as long as all the rest of the layer.
        array.rebind(Value(1, int64, buffer=counted + 1))
        return
    with no_grad():
        count.add_(1)


class _BatchNorm(NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised by the batch's statistics, or by the running ones.

        The batch's are used, and tracked, in training; also where none are tracked.
        """
        self.check(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        tracked = self.track_running_stats or not self.training
        count = self.num_batches_tracked
        if self.training and self.track_running_stats and count is not None:
            if trace_hooks.running:
                trace_hooks.each_time(_BatchCounter(self))
            else:
                _count_batch(count)
            if self.momentum is None:
                trace_hooks.once("BatchNorm without momentum averages all batches")
                momentum = 1.0 / count.item()
        return ops.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            training=self.training or self.running_mean is None,
            momentum=momentum,
            eps=self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises each feature over a batch of vectors or sequences.

    Parameters
    ----------
    num_features : int
        Size of dimension 1.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        Share of each batch in the running statistics; None averages all batches.
    affine : bool, default True
        Whether there are a scale `weight` and a shift `bias`.
    track_running_stats : bool, default True
        Whether there are `running_mean`, `running_var` and `num_batches_tracked`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of parameters and statistics.
    bias : bool, default True
        Whether there is a shift beside the scale.

    Notes
    -----
    Source: Ioffe and Szegedy, arXiv:1502.03167.
    """

    shapes = (2, 3)
    expected = "(batch, {0}) or (batch, {0}, length)"


@shares_parameters(BatchNorm1d)
class BatchNorm2d(_BatchNorm):
    """Normalises each channel over a batch of images; see `BatchNorm1d`."""

    shapes = (4,)
    expected = "(batch, {0}, height, width)"


@shares_parameters(BatchNorm1d)
class BatchNorm3d(_BatchNorm):
    """Normalises each channel over a batch of volumes; see `BatchNorm1d`."""

    shapes = (5,)
    expected = "(batch, {0}, depth, height, width)"


class SyncBatchNorm(_BatchNorm):
    """Normalises each channel over the batches of all processes.

    In one process it does what the other batch norms do, for tensors of any number of
    dimensions. In training among several it raises `NotImplementedError`.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        As in `BatchNorm1d`.
    process_group : object
        Without effect.
    """

    shapes = tuple(range(2, 65))
    expected = "(batch, {0}, ...)"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            bias=bias,
        )
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised; see `BatchNorm1d`.

        Raises
        ------
        NotImplementedError
            In training among several processes, whose statistics would differ.
        """
        if self.training:
            refuse_several("SyncBatchNorm", self.process_group)
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, process_group: Any = None
    ) -> Module:
        """Return a module with its batch norms replaced by this class, in place.

        Parameters
        ----------
        module : Module
            If it is a batch norm itself, a new one with its tensors is returned.
        process_group : object
            Without effect.
        """
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                affine=False,
                track_running_stats=False,
                process_group=process_group,
            )
            made.affine = module.affine
            made.track_running_stats = module.track_running_stats
            made.weight, made.bias = module.weight, module.bias
            for name, tensor in module.named_buffers(recurse=False):
                on_host = name == "num_batches_tracked"
                made.register_buffer(name, tensor, on_host=on_host)
            made.training = module.training
            return made
        for name, child in list(module.named_children()):
            replaced = cls.convert_sync_batchnorm(child, process_group)
            if replaced is not child:
                setattr(module, name, replaced)
        return module
