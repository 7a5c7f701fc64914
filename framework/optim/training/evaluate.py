"""Evaluation: means of metrics over a loader, read from the device once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...autograd.engine import no_grad
from ...base.device import Device
from ...base.errors import ShapeError
from ...data.collate import map_arrays
from ...nn.module import Module
from ...ops import stack
from ...tensor.from_data import as_tensor
from ...tensor.tensor import Tensor

Metric = Callable[..., Tensor]


def evaluate(
    model: Module,
    loader: Iterable[Any],
    metrics: Mapping[str, Metric] | Sequence[Metric],
) -> dict[str, float]:
    """Return the means of metrics over the samples of a loader.

    The model is in evaluation mode and there are no gradients; afterwards each module
    is in the mode in which it was. The means are kept on the device and read at the
    end.

    Parameters
    ----------
    model : Module
        Called with the members of a batch but the last.
    loader : iterable
        Of batches: lists or tuples, of which the last member is the target.
    metrics : mapping of str to callable, or sequence of functions
        Each of (outputs, targets) returns the mean over the samples of a batch, a
        tensor of one element. Functions go by their names.

    Returns
    -------
    dict of str to float
        Means over all samples: batches count by their first size.

    Raises
    ------
    ValueError
        If there is no batch.
    TypeError
        If a batch is no list or tuple of at least two members.
    ShapeError
        If a metric is not one element.

    Examples
    --------
    >>> def accuracy(outputs, targets):
    ...     return (outputs.argmax(1) == targets).float().mean()
    >>> batches = [(fw.eye(4), fw.tensor([0, 1, 2, 0]))]
    >>> optim.evaluate(nn.Identity(), batches, [accuracy])
    {'accuracy': 0.75}
    """
    named = named_metrics(metrics)
    parameter = next(iter(model.parameters()), None)
    device = None if parameter is None else parameter.device
    return mean_over(model, loader, Measure(model, named), [*named], device)


def named_metrics(
    metrics: Mapping[str, Metric] | Sequence[Metric] | None,
) -> dict[str, Metric]:
    """Return metrics by name."""
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        return dict(metrics)
    return {getattr(each, "__name__", type(each).__name__): each for each in metrics}


class Measure:
    """Values of metrics of one batch, times its size: a function that can be replayed.

    Parameters
    ----------
    model : Module
    metrics : dict of str to callable
        Of outputs and targets.
    closure : callable or None
        Of the batch, in the first place before the metrics.
    """

    def __init__(
        self,
        model: Module,
        metrics: Mapping[str, Metric],
        closure: Metric | None = None,
    ) -> None:
        self.model = model
        self.metrics = list(metrics.items())
        self.closure = closure

    def __call__(self, *batch: Any) -> Tensor:
        """Return the values, shape (metrics,), float32."""
        values = []
        if self.closure is not None:
            values.append(_checked("loss", self.closure(*batch)))
        if self.metrics:
            inputs, targets = split_batch(batch)
            outputs = self.model(*inputs)
            values += [
                _checked(name, metric(outputs, targets))
                for name, metric in self.metrics
            ]
        found: Tensor = stack(values) * float(size_of(batch))
        return found


def mean_over(
    model: Module,
    loader: Iterable[Any],
    measure: Callable[..., Tensor],
    names: Sequence[str],
    device: Device | None,
) -> dict[str, float]:
    """Return the means over a loader of what `measure` returns, times batch sizes."""
    totals, count = totals_over(model, loader, measure, device)
    return means_of(totals, count, names)


def means_of(
    totals: Sequence[float], count: int, names: Sequence[str]
) -> dict[str, float]:
    """Return means by name, of sums and the number of samples."""
    if not count:
        raise ValueError(
            "evaluate: the loader has no batch; there must be at least one"
        )
    return {name: value / count for name, value in zip(names, totals)}


def totals_over(
    model: Module,
    loader: Iterable[Any],
    measure: Callable[..., Tensor],
    device: Device | None,
    least: int = 0,
) -> tuple[list[float], int]:
    """Return sums over a loader of what `measure` returns, and the number of samples.

    Parameters
    ----------
    model : Module
    loader : iterable
    measure : callable
    device : Device or None
    least : int, default 0
        Batches that are measured at least; the last one again, without counting it,
        where a model communicates with ranks that have more.
    """
    modes = [(module, module.training) for module in model.modules()]
    total: Tensor | None = None
    count = measured = 0
    model.eval()
    try:
        with no_grad():
            for given in loader:
                batch = members_of(placed(given, device))
                values = measure(*batch)
                total = values.clone() if total is None else total + values
                count += size_of(batch)
                measured += 1
            for _ in range(measured, least if measured else 0):
                measure(*batch)
    finally:
        for module, mode in modes:
            module.training = mode
    return [] if total is None else total.tolist(), count


def placed(batch: Any, device: Device | None) -> Any:
    """Return a batch with its arrays and tensors on a device."""
    if device is None:
        return map_arrays(as_tensor, batch)
    return map_arrays(
        lambda each: (
            each.to(device)
            if isinstance(each, Tensor)
            else as_tensor(each, device=device)
        ),
        batch,
    )


def members_of(batch: Any) -> tuple[Any, ...]:
    """Return the members of a batch; what is no list or tuple is its only one."""
    return tuple(batch) if isinstance(batch, list | tuple) else (batch,)


def split_batch(batch: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """Return the inputs and the targets of a batch.

    Raises
    ------
    TypeError
        If it has fewer than two members.
    """
    if len(batch) < 2:
        raise TypeError(
            f"evaluate: a batch has {len(batch)} members; it must be a list or tuple of"
            " inputs and targets, or pass closure"
        )
    return batch[:-1], batch[-1]


def size_of(batch: Any) -> int:
    """Return the first size of a batch's last tensor, 1 if there is none."""
    sizes: list[int] = []

    def note(each: Any) -> Any:
        if each.ndim:
            sizes.append(int(each.shape[0]))
        return each

    map_arrays(note, batch)
    return sizes[-1] if sizes else 1


def _checked(name: str, value: Any) -> Tensor:
    """Return a metric's value as a scalar of float32."""
    if not isinstance(value, Tensor):
        value = as_tensor(np.asarray(value, np.float32))
    if value.numel() != 1:
        raise ShapeError(
            f"evaluate: {name} has shape {tuple(value.shape)}; it must be one element,"
            " the mean over the batch"
        )
    scalar: Tensor = value.detach().reshape(()).float()
    return scalar
