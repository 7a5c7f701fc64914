"""Averages of a model's weights over a training: SWA and EMA.

Stochastic weight averaging is of Izmailov et al., arXiv:1803.05407; an exponential
moving average of the weights is of Polyak and Juditsky, 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any, Literal
from weakref import WeakSet

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import CPU, GpuDevice
from ..base.dtype import int64
from ..base.public_names import defined_names as _defined_names
from ..eager.base_tensor import evaluate
from ..ir.lazy_graph import Value
from ..nn.batchnorm import _BatchNorm
from ..nn.module import Module
from ..ops.elementwise.optimizer_step import ema
from ..tensor.factories import DeviceLike, zeros
from ..tensor.tensor import Tensor
from .foreach import assign_each
from .lr_scheduler.scheduler import LRScheduler, Rates, rates_of_groups
from .optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
"""Next average of a parameter, from the average, the parameter, and their count."""

MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], object]
"""Changes averages in place, by the parameters and the count."""

Pairs = Sequence[tuple[Tensor, Tensor]]
"""Averages, and the tensors of the model that they follow."""

_COUNTLESS: WeakSet[Callable[..., object]] = WeakSet()
"""Averages that do not read the count, so that replays may repeat them."""


def _move(averages: Sequence[Tensor], values: Sequence[Tensor], weight: float) -> None:
    """Move averages towards values by a share of the difference."""
    floats = []
    for average, value in zip(averages, values):
        if average.dtype.is_float:
            floats.append((average, value))
        else:
            average.copy_(average + (value - average) * weight)
    assign_each(ema, floats, (weight,))


def _check_decay(where: str, decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{where}: decay is {decay}; it must be between 0 and 1")


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return the exponential moving average, as `multi_avg_fn` of `AveragedModel`.

    Parameters
    ----------
    decay : float, default 0.999
        Share of the earlier average that is kept.

    Raises
    ------
    ValueError
        If `decay` is not between 0 and 1.
    """
    _check_decay("get_ema_multi_avg_fn", decay)

    @no_grad()
    def ema_update(
        averages: Sequence[Tensor], values: Sequence[Tensor], _: object
    ) -> None:
        _move(averages, values, 1.0 - decay)

    _COUNTLESS.add(ema_update)
    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return the equal average, as `multi_avg_fn` of `AveragedModel`."""

    @no_grad()
    def swa_update(
        averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any
    ) -> None:
        _move(averages, values, 1.0 / (float(num_averaged) + 1.0))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the exponential moving average of one tensor, as `avg_fn`.

    Parameters
    ----------
    decay : float, default 0.999
        Share of the earlier average that is kept.

    Raises
    ------
    ValueError
        If `decay` is not between 0 and 1.
    """
    _check_decay("get_ema_avg_fn", decay)

    @no_grad()
    def ema_update(average: Tensor, value: Tensor, _: object) -> Tensor:
        return average * decay + value * (1.0 - decay)

    _COUNTLESS.add(ema_update)
    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the equal average of one tensor, as `avg_fn`."""

    @no_grad()
    def swa_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return average + (value - average) * (1.0 / (float(num_averaged) + 1.0))

    return swa_update


class _HostUpdate:
    """Change of tensors on the host, as a host action of a trace."""

    def __init__(self, action: Callable[[], object], tensors: Sequence[Tensor]) -> None:
        self._action = action
        self._tensors = tensors

    def __call__(self) -> None:
        with no_grad():
            self._action()

    def mark(self) -> list[Value]:
        """Return the tensors' values."""
        return [each.array.value for each in self._tensors]

    def take_back(self, mark: list[Value]) -> None:
        """Restore earlier values."""
        for each, value in zip(self._tensors, mark):
            if each.array.value is not value:
                each.array.rebind(value)


class AveragedModel(Module):
    """Copy of a model, whose parameters are averages of the model's over time.

    Parameters
    ----------
    model : Module
        Copied with `copy.deepcopy`; the first update copies its parameters again.
    device : Device or str, optional
        Where the averages are; by default where the model is.
    avg_fn : callable, optional
        Returns the next average of a tensor, from the average, the tensor and the
        number of models averaged.
    multi_avg_fn : callable, optional
        Changes all averages in place, from lists of averages and tensors and that
        number. Without either function, all models count the same.
    use_buffers : bool, default False
        Whether buffers are averaged too; otherwise they are copied.

    Attributes
    ----------
    module : Module
        The copy.
    n_averaged : Tensor, shape (), int64
        Number of models averaged, a buffer on the host.

    Raises
    ------
    AssertionError
        If both functions are given.

    Notes
    -----
    Under `fw.jit` an update is replayed, except with a function of your own or of
    `get_swa_avg_fn` and `get_swa_multi_avg_fn`, which read the count: calls that make
    such an update are traced each time.

    Examples
    --------
    >>> from vkbackend.framework import nn
    >>> model = nn.Linear(1, 1)
    >>> averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    >>> averaged.update_parameters(model)
    >>> averaged.n_averaged.item()
    1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: DeviceLike = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(
                "AveragedModel: avg_fn and multi_avg_fn were given; one may be"
            )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer(
            "n_averaged", zeros((), dtype=int64, device=CPU), on_host=True
        )
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the averaged module computes."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add a model's parameters to the averages.

        Parameters
        ----------
        model : Module
            Of the same structure as the averaged one. Parameters may differ from
            their averages in device and dtype.
        """
        own: Iterable[Tensor] = self.module.parameters()
        theirs: Iterable[Tensor] = model.parameters()
        copied: list[tuple[Tensor, Tensor]] = []
        if self.use_buffers:
            own = chain(own, self.module.buffers())
            theirs = chain(theirs, model.buffers())
        else:
            copied = _pairs(self.module.buffers(), model.buffers())
        averaged = _pairs(own, theirs)
        if self.n_averaged.item() == 0:
            trace_hooks.once("AveragedModel copies the first model")
            _copy(averaged)
        else:
            self._average(averaged)
        _copy(copied)
        self._count()
        evaluate(*[each for each, _ in chain(averaged, copied)])

    def _average(self, pairs: Pairs) -> None:
        on_host = [each for each in pairs if not isinstance(each[0].device, GpuDevice)]
        if on_host:
            tensors = [average for average, _ in on_host]
            action = partial(self._average_alike, on_host)
            trace_hooks.each_time(_HostUpdate(action, tensors))
        on_device = [each for each in pairs if isinstance(each[0].device, GpuDevice)]
        if on_device:
            self._average_alike(on_device)

    def _average_alike(self, pairs: Pairs) -> None:
        """Average tensors that are all on the host, or all on devices."""
        averages = [average for average, _ in pairs]
        values = [_like(average, value) for average, value in pairs]
        if self.avg_fn is None and self.multi_avg_fn is None:
            weight = trace_hooks.changing(lambda: 1.0 / (self.n_averaged.item() + 1))
            _move(averages, values, weight)
            return
        if (self.multi_avg_fn or self.avg_fn) not in _COUNTLESS:
            trace_hooks.once("AveragedModel's function may read the count")
        if self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, values, self.n_averaged)
            return
        assert self.avg_fn is not None
        for average, value in zip(averages, values):
            average.copy_(self.avg_fn(average, value, self.n_averaged))

    def _count(self) -> None:
        count = self.n_averaged
        trace_hooks.each_time(_HostUpdate(lambda: count.add_(1), [count]))


def _pairs(
    own: Iterable[Tensor], theirs: Iterable[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return averages with the model's tensors, which must have their shapes."""
    averages, values = list(own), list(theirs)
    shapes = [[tuple(each.shape) for each in some] for some in (averages, values)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"update_parameters: the model's tensors have shapes {shapes[1]}, the"
            f" averages {shapes[0]}; they must be equal"
        )
    return [(each.detach(), other.detach()) for each, other in zip(averages, values)]


def _like(average: Tensor, value: Tensor) -> Tensor:
    """Return a tensor on the average's device, and of its dtype."""
    return value.to(device=average.device, dtype=average.dtype)


def _copy(pairs: Pairs) -> None:
    """Copy tensors of a model; those on the host as host actions of a trace."""
    for average, value in pairs:
        if isinstance(average.device, GpuDevice):
            average.copy_(_like(average, value))
        else:
            copy = partial(average.copy_, value)
            trace_hooks.each_time(_HostUpdate(copy, [average]))


def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike = None) -> None:
    """Compute the running statistics of batch norm layers anew, from all batches.

    Parameters
    ----------
    loader : iterable
        Batches for `model`; of a tuple or list, its first entry.
    model : Module
        Called in training mode, without gradients; its mode is restored.
    device : Device or str, optional
        Where batches are copied to.

    Notes
    -----
    The statistics of all batches count the same. Without batch norm layers nothing is
    done, and `loader` is not read.
    """
    layers = [each for each in model.modules() if isinstance(each, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    training = model.training
    model.train()
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        with no_grad():
            for batch in loader:
                given = batch[0] if isinstance(batch, list | tuple) else batch
                model(given if device is None else given.to(device))
    finally:
        for layer, momentum in zip(layers, momenta):
            layer.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Moves the learning rate to a constant one, for stochastic weight averaging.

    Parameters
    ----------
    optimizer : Optimizer
    swa_lr : float, or sequence of float
        The last rate; of each group. Noted as "swa_lr" of the groups.
    anneal_epochs : int, default 10
        Epochs until it is reached.
    anneal_strategy : {"cos", "linear"}, default "cos"
        Whether the rate moves along half a cosine or a line.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If `anneal_strategy` is unknown, `anneal_epochs` is no int or below 0, or there
        are not as many rates as groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy is {anneal_strategy!r}; it must be 'cos' or"
                " 'linear'"
            )
        if type(anneal_epochs) is not int or anneal_epochs < 0:
            raise ValueError(
                f"SWALR: anneal_epochs is {anneal_epochs!r}; it must be an int of at"
                " least 0"
            )
        rates = rates_of_groups("SWALR", "swa_lr", swa_lr, optimizer)
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs = anneal_epochs
        self._anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """Return the share of the last rate where a share of the epochs has passed."""
        if self._anneal_strategy == "cos":
            return (1.0 - math.cos(math.pi * t)) / 2.0
        return t

    def _share(self, step: int) -> float:
        """Return the share of the last rate in the rate of a step."""
        return self.anneal_func(max(0.0, min(1.0, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> Rates:
        """Return the rates that the groups' present ones lead to."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            last = group["swa_lr"]
            first = last
            if before != 1.0:
                first = (group["lr"] - before * last) / (1.0 - before)
            rates.append(last * now + first * (1.0 - now))
        return rates


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _defined_names(globals())
