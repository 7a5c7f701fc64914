"""Layers with quantized weights, and the conversion of a model's layers to them."""

from __future__ import annotations

import math
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeGuard

from vkbackend.errors import ArgumentError

from ..autograd.engine import no_grad
from ..base.dtype import DTypeLike, float32, int32
from ..base.errors import ShapeError
from ..base.quantized_format import find_format
from ..base.validation import as_int
from ..ops.quantized.grouped import quantized_gather_mm, quantized_grouped_mm
from ..ops.quantized.product import quantized_embedding, quantized_linear
from ..tensor.factories import DeviceLike, empty, zeros
from ..tensor.quantized import QuantizedTensor
from ..tensor.quantized import quantize as quantize_tensor
from ..tensor.tensor import Tensor
from .embedding import Embedding
from .grouped import GroupedLinear, check_groups
from .linear import Linear
from .module import Module
from .parameter import Parameter


class _QuantizedTable(Module):
    """A frozen matrix, or a stack of them, in blocks of few bits."""

    def __init__(
        self,
        rows: tuple[int, ...],
        columns: int,
        format: str,
        device: DeviceLike,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        kind = find_format(format, type(self).__name__)
        kind.check(type(self).__name__, columns)
        self.format = kind.name
        self._columns = columns
        # With the format in its name, blocks of another one are not loaded as these.
        self._name = f"weight_{kind.name}"
        made = zeros((*rows, kind.row_size(columns)), dtype="uint8", device=device)
        self.register_buffer(self._name, made)
        # It has the dtype of activations, for it is cast with the module.
        like = empty(0, dtype=dtype, device=device)
        self.register_buffer("_like", like, persistent=False)

    @property
    def weight(self) -> QuantizedTensor:
        """The weights; assign others of the same format and shape."""
        like: Tensor = self._like
        blocks: Tensor = getattr(self, self._name)
        return QuantizedTensor(blocks, self.format, self._columns, like.dtype)

    @weight.setter
    def weight(self, value: QuantizedTensor) -> None:
        blocks: Tensor = getattr(self, self._name)
        if value.format != self.format or value.blocks.shape != blocks.shape:
            raise ShapeError(
                f"{type(self).__name__}.weight: it is {value.format} of"
                f" {tuple(value.shape)}; it must be {self.format} of"
                f" {tuple(self.weight.shape)}"
            )
        self._take(value)

    def _take(self, value: QuantizedTensor) -> None:
        """Take over weights, with their device and dtype."""
        setattr(self, self._name, value.blocks)
        self._like = empty(0, dtype=value.dtype, device=value.device)


class QLinear(_QuantizedTable):
    """y = x W^T + b with a frozen W in blocks of few bits.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension before and after.
    format : str, default "q8_0"
        A format of `QuantizedTensor`.
    bias : bool, default True
        Whether there is a `b`, which is trained as that of `Linear`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the bias.

    Attributes
    ----------
    weight : QuantizedTensor, shape (out_features, in_features)
        Zeros; `from_linear` and `load_state_dict` give it others. It gets no gradient;
        the input does.
    bias : Parameter, shape (out_features,), or None
        Zeros.

    Raises
    ------
    ArgumentError
        If there is no such format.
    ShapeError
        If `in_features` is no number of the format's blocks.

    Notes
    -----
    In `state_dict` the weight is "weight_q8_0", or of the format that it has.

    Examples
    --------
    >>> layer = nn.QLinear.from_linear(nn.Linear(64, 2), "q8_0")
    >>> layer(fw.zeros((5, 64))).shape
    torch.Size([5, 2])
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        format: str = "q8_0",
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        in_features = as_int("QLinear: in_features", in_features)
        out_features = as_int("QLinear: out_features", out_features)
        super().__init__((out_features,), in_features, format, device, dtype)
        self.in_features = in_features
        self.out_features = out_features
        shift = Parameter(zeros(out_features, dtype=dtype, device=device))
        self.register_parameter("bias", shift if bias else None)

    @classmethod
    def from_linear(cls, linear: Linear, format: str = "q8_0") -> QLinear:
        """Return the layer of a `Linear`, whose bias it takes over.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            As of `fw.quantize`.
        """
        return cls.from_quantized(quantize_tensor(linear.weight, format), linear.bias)

    @classmethod
    def from_quantized(
        cls, weight: QuantizedTensor, bias: Parameter | None = None
    ) -> QLinear:
        """Return the layer of a quantized matrix (out_features, in_features)."""
        rows, columns = weight.shape
        made = cls(columns, rows, weight.format, False, "cpu", weight.dtype)
        made._take(weight)
        made.register_parameter("bias", bias)
        return made

    def forward(self, input: Tensor) -> Tensor:
        """Return the products plus the bias.

        Parameters
        ----------
        input : Tensor, shape (..., in_features)

        Returns
        -------
        Tensor, shape (..., out_features)
        """
        return quantized_linear(input, self.weight.blocks, self.bias, self.format)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" format={self.format!r}, bias={self.bias is not None}"
        )


class QEmbedding(_QuantizedTable):
    """Embedding table in blocks of few bits: only the rows looked up are decoded.

    Parameters
    ----------
    num_embeddings : int
        Vectors.
    embedding_dim : int
        Their size.
    format : str, default "q8_0"
        A format of `QuantizedTensor`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of what is looked up.

    Attributes
    ----------
    weight : QuantizedTensor, shape (num_embeddings, embedding_dim)
        Zeros; `from_embedding` and `load_state_dict` give it others.

    Raises
    ------
    ArgumentError
        If there is no such format.
    ShapeError
        If `embedding_dim` is no number of the format's blocks.

    Examples
    --------
    >>> table = nn.QEmbedding.from_embedding(nn.Embedding(10, 32), "q8_0")
    >>> table(fw.tensor([[1, 2, 9]])).shape
    torch.Size([1, 3, 32])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        format: str = "q8_0",
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        num_embeddings = as_int("QEmbedding: num_embeddings", num_embeddings)
        embedding_dim = as_int("QEmbedding: embedding_dim", embedding_dim)
        super().__init__((num_embeddings,), embedding_dim, format, device, dtype)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim

    @classmethod
    def from_embedding(cls, table: Embedding, format: str = "q8_0") -> QEmbedding:
        """Return the quantized table; errors as of `fw.quantize`."""
        return cls.from_quantized(quantize_tensor(table.weight, format))

    @classmethod
    def from_quantized(cls, weight: QuantizedTensor) -> QEmbedding:
        """Return the table of a quantized matrix."""
        rows, columns = weight.shape
        made = cls(rows, columns, weight.format, "cpu", weight.dtype)
        made._take(weight)
        return made

    def forward(self, input: Tensor) -> Tensor:
        """Return the vectors of indices.

        Parameters
        ----------
        input : Tensor, any integer dtype

        Returns
        -------
        Tensor, shape (*input.shape, embedding_dim)
        """
        blocks, format, columns, dtype = self.weight
        return quantized_embedding(input, blocks, format, columns, dtype)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.num_embeddings}, {self.embedding_dim}, format={self.format!r}"


class QGroupedLinear(_QuantizedTable):
    """A frozen `GroupedLinear` with weights in blocks of few bits.

    Parameters
    ----------
    groups, in_features, out_features : int
    format : str, default "q8_0"
        A format of `QuantizedTensor`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32

    Attributes
    ----------
    weight : QuantizedTensor, shape (groups, out_features, in_features)
        Zeros; `from_grouped` and `load_state_dict` give it others. It gets no gradient;
        the input does.

    Raises
    ------
    ArgumentError
        If there is no such format.
    ShapeError
        If `in_features` is no number of the format's blocks.

    Examples
    --------
    >>> layer = nn.QGroupedLinear.from_grouped(nn.GroupedLinear(3, 32, 2), "q8_0")
    >>> layer(fw.zeros((5, 32)), offs=fw.tensor([1, 1, 5])).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        groups: int,
        in_features: int,
        out_features: int,
        format: str = "q8_0",
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        groups = as_int("QGroupedLinear: groups", groups)
        in_features = as_int("QGroupedLinear: in_features", in_features)
        out_features = as_int("QGroupedLinear: out_features", out_features)
        super().__init__((groups, out_features), in_features, format, device, dtype)
        self.groups = groups
        self.in_features = in_features
        self.out_features = out_features

    @classmethod
    def from_grouped(cls, layer: GroupedLinear, format: str = "q8_0") -> QGroupedLinear:
        """Return the quantized layer; errors as of `fw.quantize`."""
        return cls.from_quantized(quantize_tensor(layer.weight, format))

    @classmethod
    def from_quantized(cls, weight: QuantizedTensor) -> QGroupedLinear:
        """Return the layer of matrices (groups, out_features, in_features)."""
        groups, rows, columns = weight.shape
        made = cls(groups, columns, rows, weight.format, "cpu", weight.dtype)
        made._take(weight)
        return made

    def forward(
        self,
        input: Tensor,
        *,
        offs: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> Tensor:
        """Return the products of rows with the matrices of their groups.

        Parameters and errors are those of `GroupedLinear.forward`.

        Returns
        -------
        Tensor, shape (rows, out_features) or (count, out_features)
            With `numbers` weights are decoded in registers; with `offs` they are a
            temporary stack of the dtype of the input.
        """
        check_groups(offs, numbers)
        blocks = self.weight.blocks
        if offs is not None:
            return quantized_grouped_mm(input, blocks, offs.to(int32), self.format)
        assert numbers is not None
        return quantized_gather_mm(input, blocks, numbers.to(int32), self.format)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        sizes = f"{self.groups}, {self.in_features}, {self.out_features}"
        return f"{sizes}, format={self.format!r}"


class QuantizedLayer(NamedTuple):
    """What quantizing did to one layer.

    Attributes
    ----------
    name : str
    format : str
    error : float
        Root mean square of the weights' change, divided by that of the weights.
    before, after : int
        Bytes of the weights; 0 where another layer has the same.
    """

    name: str
    format: str
    error: float
    before: int
    after: int

    @property
    def signal_to_noise(self) -> float:
        """Decibels of the weights over their change."""
        return math.inf if self.error == 0 else -20 * math.log10(self.error)


class QuantizationReport(NamedTuple):
    """What `nn.quantize` did.

    Attributes
    ----------
    layers : tuple of QuantizedLayer
        Those that have become `QLinear`, `QGroupedLinear` or `QEmbedding`.
    kept : dict of str to str
        Linear and embedding layers that stay as they were, and why.
    """

    layers: tuple[QuantizedLayer, ...]
    kept: dict[str, str]

    @property
    def before(self) -> int:
        """Bytes of the weights before."""
        return sum(each.before for each in self.layers)

    @property
    def after(self) -> int:
        """Bytes of the weights now."""
        return sum(each.after for each in self.layers)

    def __str__(self) -> str:
        """Return a table, a line for each layer."""
        lines = [
            f"{each.name}  {each.format}  error {each.error:.4f}"
            f" ({each.signal_to_noise:.1f} dB)  {each.before} -> {each.after} bytes"
            for each in self.layers
        ]
        lines += [f"{name}  kept: {reason}" for name, reason in self.kept.items()]
        total = f"{len(self.layers)} layers, {self.before} -> {self.after} bytes"
        return "\n".join([*lines, total])


def quantize(
    model: Module, format: str = "q8_0", skip: Collection[str] = ()
) -> QuantizationReport:
    """Quantize the weights of linear and embedding layers of a model, in place.

    Parameters
    ----------
    model : nn.Module
        Its `Linear` become `QLinear`, its `GroupedLinear` `QGroupedLinear`, its
        `Embedding` `QEmbedding`. Layers that share a weight share the quantized one.
        Weights are quantized on the host, one
        after the other, and go back to their device.
    format : str, default "q8_0"
        A format of `QuantizedTensor`.
    skip : collection of str
        Names of layers that stay as they are, with `*` for any part: "lm_head",
        "*.down_proj".

    Returns
    -------
    QuantizationReport
        The error and the bytes of each layer, and which stay as they are: those whose
        rows are no number of the format's blocks, and embeddings with `max_norm`.

    Raises
    ------
    ArgumentError
        If there is no such format, or the model itself is a layer: `from_linear`
        returns that.
    DTypeError
        If a weight has an element that is no finite number; the model is as it was.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    >>> report = nn.quantize(model, "q4_0", skip=["2"])
    >>> [each.name for each in report.layers], report.before, report.after
    (['0'], 8192, 1152)
    """
    kind = find_format(format, "nn.quantize")
    if _is_layer(model):
        raise ArgumentError(
            f"nn.quantize: the model is a {type(model).__name__}; it must be a module"
            " with layers, for they are replaced; use from_linear or from_embedding"
        )
    weights: dict[int, QuantizedTensor] = {}
    made: dict[str, Module] = {}
    layers: list[QuantizedLayer] = []
    kept: dict[str, str] = {}
    for name, layer in model.named_modules():
        if not _is_layer(layer):
            continue
        reason = _reason_to_keep(name, layer, kind.multiple, skip)
        if reason:
            kept[name] = reason
            continue
        parameter: Parameter = layer.weight
        known = weights.get(id(parameter))
        weight = quantize_tensor(parameter, format) if known is None else known
        weights[id(parameter)] = weight
        if isinstance(layer, Linear):
            made[name] = QLinear.from_quantized(weight, layer.bias)
        elif isinstance(layer, GroupedLinear):
            made[name] = QGroupedLinear.from_quantized(weight)
        else:
            made[name] = QEmbedding.from_quantized(weight)
        made[name].train(layer.training)
        sizes = (0, 0) if known else (parameter.nbytes, weight.nbytes)
        error = _error(parameter, weight)
        layers.append(QuantizedLayer(name, kind.name, error, *sizes))
    _replace(model, made)
    return QuantizationReport(tuple(layers), kept)


def _is_layer(module: Module) -> TypeGuard[Linear | GroupedLinear | Embedding]:
    """Return whether a module is of a class of which instances are replaced.

    Those derived from them may use their weight otherwise.
    """
    return type(module) in (Linear, GroupedLinear, Embedding)


def _reason_to_keep(
    name: str,
    layer: Linear | GroupedLinear | Embedding,
    multiple: int,
    skip: Collection[str],
) -> str:
    """Return why a layer stays as it is, or an empty string."""
    if any(fnmatchcase(name, pattern) for pattern in skip):
        return "skipped"
    if "weight" not in dict(layer.named_parameters(recurse=False)):
        return "its weight is computed from others"
    if isinstance(layer, Embedding) and layer.max_norm is not None:
        return "max_norm changes its weight"
    columns: int = layer.weight.shape[-1]
    if columns % multiple or not columns:
        return f"{columns} columns are no multiple of {multiple}"
    return ""


def _error(weight: Tensor, quantized: QuantizedTensor) -> float:
    with no_grad():
        given = weight.detach().to(float32)
        size = float((given * given).mean().item()) if given.numel() else 0.0
        change = quantized.dequantize(float32) - given
        squares = float((change * change).mean().item()) if given.numel() else 0.0
    return math.sqrt(squares / size) if size else 0.0


def _replace(model: Module, made: dict[str, Module]) -> None:
    """Put layers in the place of others, wherever those are."""
    by_old = {id(model.get_submodule(name)): new for name, new in made.items()}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None and id(child) in by_old:
                setattr(parent, name, by_old[id(child)])
