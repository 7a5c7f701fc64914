"""Normalisations whose channels of inputs are known from the first call."""

from __future__ import annotations

from typing import Any

from ..base.dtype import DTypeLike
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from . import batchnorm, norm
from .lazy import (
    LazyModuleMixin,
    UninitializedBuffer,
    UninitializedParameter,
    materialize,
)
from .parameter import Parameter


class _LazyNorm(LazyModuleMixin):
    """Normalisation whose `num_features` is the channels of its first input."""

    num_features: int
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None

    def _set(
        self,
        bias: bool,
        affine: bool,
        tracked: bool,
        device: DeviceLike,
        dtype: DTypeLike | None,
    ) -> None:
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if tracked:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)

    def reset_parameters(self) -> None:
        """Set the parameters and statistics to their first values, if there are any."""
        if self.num_features:
            super().reset_parameters()  # type: ignore[misc]  # the layer's

    def initialize_parameters(self, input: Tensor) -> None:
        """Make the parameters for the channels of an input."""
        self.num_features = found = input.shape[self._channel_dim(input)]
        for name in ("weight", "bias", "running_mean", "running_var"):
            materialize(getattr(self, name), (found,))
        self.reset_parameters()

    def _channel_dim(self, input: Tensor) -> int:
        return 1


class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d):
    """`BatchNorm1d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `BatchNorm1d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = batchnorm.BatchNorm1d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)


class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d):
    """`BatchNorm2d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `BatchNorm2d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = batchnorm.BatchNorm2d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)


class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d):
    """`BatchNorm3d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `BatchNorm3d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = batchnorm.BatchNorm3d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)


class LazyInstanceNorm1d(_LazyNorm, norm.InstanceNorm1d):
    """`InstanceNorm1d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `InstanceNorm1d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = norm.InstanceNorm1d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)

    def _channel_dim(self, input: Tensor) -> int:
        return input.ndim - 2


class LazyInstanceNorm2d(_LazyNorm, norm.InstanceNorm2d):
    """`InstanceNorm2d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `InstanceNorm2d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = norm.InstanceNorm2d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)

    def _channel_dim(self, input: Tensor) -> int:
        return input.ndim - 3


class LazyInstanceNorm3d(_LazyNorm, norm.InstanceNorm3d):
    """`InstanceNorm3d` whose `num_features` is the channels of its first input.

    Parameters
    ----------
    eps, momentum, affine, track_running_stats, bias
        See `InstanceNorm3d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = norm.InstanceNorm3d

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, track_running_stats, device, dtype)
        self.affine = affine
        self._set(bias, affine, track_running_stats, device, dtype)

    def _channel_dim(self, input: Tensor) -> int:
        return input.ndim - 4
