"""First parameters of models that are trained from scratch."""

from __future__ import annotations

from ..autograd.engine import no_grad
from ..base.device import default_device, find_device
from ..base.dtype import DTypeLike, as_dtype
from ..base.philox import Generator
from ..eager.base_tensor import evaluate
from ..nn.linear import Linear
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.factories import DeviceLike, empty
from ..tensor.tensor import Tensor
from .parameters import set_parameter, tied_parameters


def initialize(
    model: Module,
    device: DeviceLike = None,
    dtype: DTypeLike | None = None,
    *,
    std: float = 0.02,
    generator: Generator | None = None,
) -> None:
    """Give a model random parameters, one after the other on their device.

    Parameters
    ----------
    model : nn.Module
        Of a family of `fw.models`, whose layers have arbitrary elements until then.
        Matrices are drawn from N(0, std^2), biases of linear layers are 0, and those
        of norms stay as they are. Tied parameters stay tied.
    device : Device, str or None
        Where parameters and buffers go; None is the default device.
    dtype : DType, str or None
        Of the parameters; None is the one that they have.
    std : float, default 0.02
        As `initializer_range` of `transformers`.
    generator : Generator or None
        Source of random numbers; None is that of the device.

    Examples
    --------
    >>> sizes = {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 8,
    ...          "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = fw.models.Llama(fw.models.ModelConfig(sizes))
    >>> fw.models.initialize(model)
    """
    place = default_device() if device is None else find_device(device)
    tied = tied_parameters(model)
    for name, parameter in list(model.named_parameters()):
        kind = parameter.dtype if dtype is None else as_dtype(dtype)
        owner, _, attribute = name.rpartition(".")
        with no_grad():
            if parameter.ndim > 1:
                made: Tensor = empty(tuple(parameter.shape), dtype=kind, device=place)
                made.normal_(0.0, std, generator=generator)
            elif attribute == "bias" and isinstance(model.get_submodule(owner), Linear):
                made = empty(tuple(parameter.shape), dtype=kind, device=place)
                made.zero_()
            else:
                made = parameter.detach().to(place, kind)
            # Each at once: what all are drawn from is never held together.
            evaluate(made)
        set_parameter(model, name, Parameter(made, parameter.requires_grad))
    for name, other in tied.items():
        set_parameter(model, name, model.get_parameter(other))
    model.to(place)
