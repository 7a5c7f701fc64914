"""The functions that PyTorch also has as `torch.name`, with arguments of their own.

They differ from those of `nn.functional` in the order of arguments, in numbers for the
names of modes, and in flags for libraries that are not used here (`cudnn_enabled`),
which have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from ..eager.base_tensor import need_tensors
from ..tensor.tensor import Tensor
from . import functional
from .functional.dropout import drop_channels
from .functional.embedding import MODES, renormalize

REDUCTIONS = ("none", "mean", "sum")
INTERPOLATION = tuple(functional.GRID_SAMPLE_INTERPOLATION_MODES)
PADDING = tuple(functional.GRID_SAMPLE_PADDING_MODES)


def _named(name: str, names: Sequence[str], number: int | str) -> str:
    """Return the name of a mode that is given by its number."""
    if isinstance(number, str):
        return number
    if not 0 <= number < len(names):
        numbered = ", ".join(f"{k} ({each})" for k, each in enumerate(names))
        raise ShapeError(f"{name} is {number}; it must be one of {numbered}")
    return names[number]


def _reduction(name: str, number: int | str) -> str:
    return _named(f"{name}: reduction", REDUCTIONS, number)


@shares_parameters(functional.batch_norm)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return each channel normalised over the batch.

    Parameters
    ----------
    cudnn_enabled : bool
        Without effect.
    """
    return functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


@shares_parameters(functional.instance_norm)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """Return each channel of each sample normalised.

    Parameters
    ----------
    cudnn_enabled : bool
        Without effect.
    """
    return functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


@shares_parameters(functional.layer_norm)
def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return the last dimensions normalised.

    Parameters
    ----------
    cudnn_enable : bool
        Without effect.
    """
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


@shares_parameters(functional.group_norm)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return groups of channels normalised in each sample.

    Parameters
    ----------
    cudnn_enabled : bool
        Without effect.
    """
    return ops.group_norm(input, num_groups, weight, bias, eps)


@shares_parameters(functional.dropout, train="training")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `functional.dropout`."""
    return functional.dropout(input, p, train)


@shares_parameters(functional.dropout, train="training")
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace the elements by `functional.dropout` of them."""
    return functional.dropout(input, p, train, True)


@shares_parameters(functional.dropout, train="training")
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return (batch, channels, ...) with channels dropped."""
    return drop_channels("feature_dropout", input, p, train, False)


@shares_parameters(functional.dropout, train="training")
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace the elements by `feature_dropout` of them."""
    return drop_channels("feature_dropout_", input, p, train, True)


@shares_parameters(functional.alpha_dropout, train="training")
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `functional.alpha_dropout`."""
    return functional.alpha_dropout(input, p, train)


@shares_parameters(functional.alpha_dropout, train="training")
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace the elements by `functional.alpha_dropout` of them."""
    return functional.alpha_dropout(input, p, train, True)


@shares_parameters(functional.feature_alpha_dropout, train="training")
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `functional.feature_alpha_dropout`."""
    return functional.feature_alpha_dropout(input, p, train)


@shares_parameters(functional.feature_alpha_dropout, train="training")
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace the elements by `functional.feature_alpha_dropout` of them."""
    return functional.feature_alpha_dropout(input, p, train, True)


@shares_parameters(functional.adaptive_max_pool1d)
def adaptive_max_pool1d(
    input: Tensor, output_size: int | tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each part of signals, and where each was."""
    return functional.adaptive_max_pool1d_with_indices(input, output_size)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table by number.

    Parameters
    ----------
    weight : Tensor, shape (rows, size)
        The table, which `functional.embedding` takes second.
    indices : Tensor, any integer dtype
    padding_idx : int, default -1
        Row without gradient; -1 means none.
    scale_grad_by_freq : bool, default False
        As in `functional.embedding`.
    sparse : bool
        Without effect.
    """
    need_tensors("embedding", weight=weight, indices=indices)
    padding = None if padding_idx == -1 else padding_idx
    return functional.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq
    )


def embedding_renorm_(
    weight: Tensor, indices: Tensor, max_norm: float, norm_type: float
) -> Tensor:
    """Scale the rows that indices name to `max_norm` where they are longer.

    Parameters
    ----------
    weight : Tensor, shape (rows, columns)
        Changed in place and returned.
    indices : Tensor of integers, any shape
        Rows; those that are named twice are scaled once.
    max_norm : number
        The largest norm that a row may have.
    norm_type : number
        Order of the norm.
    """
    need_tensors("embedding_renorm_", weight=weight, indices=indices)
    renormalize(indices, weight, max_norm, norm_type)
    return weight


@shares_parameters(functional.pad)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Return a copy with elements of one value added; see `functional.pad`."""
    return ops.pad(input, pad, "constant", value)


def grid_sampler(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    """Return `functional.grid_sample`, with numbers for the modes.

    Parameters
    ----------
    input, grid, align_corners
        As there.
    interpolation_mode : int
        0 is "bilinear", 1 "nearest", 2 "bicubic".
    padding_mode : int
        0 is "zeros", 1 "border", 2 "reflection".
    """
    mode = _named("grid_sampler: interpolation_mode", INTERPOLATION, interpolation_mode)
    padding = _named("grid_sampler: padding_mode", PADDING, padding_mode)
    return functional.grid_sample(input, grid, mode, padding, align_corners)


@shares_parameters(functional.affine_grid)
def affine_grid_generator(
    theta: Tensor, size: Sequence[int], align_corners: bool
) -> Tensor:
    """Return `functional.affine_grid`."""
    return functional.affine_grid(theta, size, align_corners)


@shares_parameters(functional.rrelu)
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
) -> Tensor:
    """Return `functional.rrelu`."""
    return functional.rrelu(input, lower, upper, training)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input, target, weight, pos_weight
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("binary_cross_entropy_with_logits", reduction)
    return functional.binary_cross_entropy_with_logits(
        input, target, weight, reduction=how, pos_weight=pos_weight
    )


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input, target, log_target
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("kl_div", reduction)
    return ops.kl_div(input, target, reduction=how, log_target=log_target)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input, target, margin
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("hinge_embedding_loss", reduction)
    return functional.hinge_embedding_loss(input, target, margin, reduction=how)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    reduction: int = 0,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input1, input2, target, margin
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("margin_ranking_loss", reduction)
    return ops.margin_ranking_loss(input1, input2, target, margin=margin, reduction=how)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    reduction: int = 0,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input1, input2, target, margin
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("cosine_embedding_loss", reduction)
    return functional.cosine_embedding_loss(
        input1, input2, target, margin, reduction=how
    )


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    input, target, log_input, full, eps
        As there.
    reduction : int
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("poisson_nll_loss", reduction)
    return functional.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=how
    )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    anchor, positive, negative, margin, p, eps, swap
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("triplet_margin_loss", reduction)
    return functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=how
    )


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """Return the loss of this name in `functional`, its reduction as a number.

    Parameters
    ----------
    log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
        As there.
    reduction : int, default 0
        0 is "none", 1 "mean", 2 "sum".
    """
    how = _reduction("ctc_loss", reduction)
    return functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity
    )


@shares_parameters(functional.embedding_bag)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bags of `functional.embedding_bag`, the table first.

    Parameters
    ----------
    weight : Tensor, shape (rows, columns)
        The table.
    indices : Tensor of integers, shape (n,)
        Rows of the table.
    mode : {0, 1, 2}
        Sum, mean or maximum of the rows of a bag.

    Returns
    -------
    tuple of Tensor
        The bags; and three tensors that PyTorch keeps for its gradient, here empty.
    """
    how = _named("embedding_bag: mode", MODES, mode)
    bags = functional.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=how,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    nothing = ops.narrow(offsets, 0, 0, 0)
    return bags, nothing, nothing, nothing
