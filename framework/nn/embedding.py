"""Embedding layers."""

from __future__ import annotations

from ..autograd.engine import no_grad
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import DeviceLike, empty
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


class _Table(Module):
    """A table of vectors, one for each index."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        weight: Tensor | None,
        freeze: bool,
        device: DeviceLike,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        num_embeddings = as_int(f"{name}: num_embeddings", num_embeddings)
        embedding_dim = as_int(f"{name}: embedding_dim", embedding_dim)
        if padding_idx is not None:
            padding_idx = as_int(f"{name}: padding_idx", padding_idx)
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ShapeError(
                    f"{name}: padding_idx is {padding_idx}; it must be from"
                    f" {-num_embeddings} to {num_embeddings - 1}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        if weight is None:
            made = empty(shape, dtype=dtype, device=device)
            self.weight = Parameter(made, not freeze)
            self.reset_parameters()
        elif weight.shape != shape:
            raise ShapeError(
                f"{name}: _weight is {tuple(weight.shape)}; it must be {shape}"
            )
        else:
            self.weight = Parameter(weight, not freeze)

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0


def _sizes(name: str, embeddings: Tensor) -> tuple[int, int]:
    if embeddings.ndim != 2:
        raise ShapeError(
            f"{name}.from_pretrained: embeddings are {tuple(embeddings.shape)}; they"
            " must be"
            " 2-D"
        )
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """Embedding table: a vector for each index below `num_embeddings`.

    Parameters
    ----------
    num_embeddings : int
        Vectors.
    embedding_dim : int
        Their size.
    padding_idx : int or None
        A vector that starts as 0 and gets no gradient; negative counts from the end.
    max_norm : float or None
        Vectors looked up that are longer are scaled to it first, in `weight` itself.
    norm_type : float, default 2
        Which norm that is.
    scale_grad_by_freq : bool, default False
        Whether a vector's gradient is divided by how often it is looked up.
    sparse : bool, default False
        Whether the gradient of `weight` is sparse, for `SparseAdam`, `SGD` or
        `Adagrad`.
    _weight : Tensor, shape (num_embeddings, embedding_dim), or None
        The vectors, if they are not to be drawn; its storage is shared.
    _freeze : bool, default False
        Whether they need no gradient.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the vectors.

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Drawn from a standard normal distribution.

    Raises
    ------
    ShapeError
        If there is no vector `padding_idx`.

    Examples
    --------
    >>> nn.Embedding(10, 3)(fw.tensor([[1, 2, 4, 5]])).shape
    torch.Size([1, 4, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype
        )
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return a layer with given vectors.

        Parameters
        ----------
        embeddings : Tensor, shape (num_embeddings, embedding_dim), float
        freeze : bool, default True
            Whether they need no gradient.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            As in `Embedding`.
        """
        rows, columns = _sizes(cls.__name__, embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the vectors of an integer tensor; see `ops.embedding`."""
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (
            ("padding_idx", None),
            ("max_norm", None),
            ("norm_type", 2),
            ("scale_grad_by_freq", False),
            ("sparse", False),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of vectors; see `functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings : int
        Vectors.
    embedding_dim : int
        Their size.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As in `Embedding`.
    mode : str, default "mean"
        "sum", "mean" or "max".
    _weight : Tensor, shape (num_embeddings, embedding_dim), or None
        The vectors, if they are not to be drawn.
    include_last_offset : bool, default False
        Whether offsets have the end of the last bag too.
    padding_idx : int or None
        A vector that does not count, nor gets a gradient.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the vectors.

    Attributes
    ----------
    weight : Parameter, shape (num_embeddings, embedding_dim)
        Drawn from a standard normal distribution.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype
        )
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer with given vectors; parameters as in `EmbeddingBag`."""
        rows, columns = _sizes(cls.__name__, embeddings)
        made = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return (bags, embedding_dim); see `functional.embedding_bag`."""
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (
            ("max_norm", None),
            ("norm_type", 2),
            ("scale_grad_by_freq", False),
            ("mode", ""),
            ("padding_idx", None),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value!r}"
        return text
