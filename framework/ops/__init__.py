"""Every operation, by family; `REGISTRY` lists what is declared."""

from types import FunctionType as _Function

from ..base.late_modules import give_attributes as _give_attributes
from ..dispatch.keywords import takes_keywords as _takes_keywords
from ..dispatch.op import REGISTRY as REGISTRY
from .elementwise import optimizer_step as _optimizer_step  # noqa: F401 - declares ops
from .reduce import multi_tensor_norm as _multi_tensor_norm  # noqa: F401 - as well
from .movement import slice_vjp  # noqa: F401  # declares the gradient rule of slices
from .activation import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    silu as silu,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    swiglu as swiglu,
)
from .attention.sdpa import scaled_dot_product_attention as scaled_dot_product_attention
from .pool.avg_pool import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
)
from .elementwise.binary import (
    add as add,
    addcdiv as addcdiv,
    addcmul as addcmul,
    copysign as copysign,
    div as div,
    floor_divide as floor_divide,
    fmod as fmod,
    lerp as lerp,
    mul as mul,
    remainder as remainder,
    sub as sub,
)
from .elementwise.bitwise import (
    bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
)
from .elementwise.cast import cast as cast, result_type as result_type
from .fourier.spectrogram import istft as istft, stft as stft
from .elementwise.complex_numbers import (
    complex as complex,
    conj as conj,
    conj_physical as conj_physical,
    polar as polar,
)
from .elementwise.complex_views import (
    imag as imag,
    real as real,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from .elementwise.clamp import clamp as clamp
from .elementwise.compare import (
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    eq as eq,
    ge as ge,
    gt as gt,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    le as le,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    lt as lt,
    maximum as maximum,
    minimum as minimum,
    nan_to_num as nan_to_num,
    ne as ne,
    where as where,
)
from .conv.conv import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
)
from .conv.conv3d import conv3d as conv3d, conv_transpose3d as conv_transpose3d
from .source import (
    band_like as band_like,
    fill_like as fill_like,
    linspace_like as linspace_like,
    arange_like as arange_like,
    random_uniform as random_uniform,
)
from .loss.cross_entropy import cross_entropy as cross_entropy
from .matmul.diagonal import (
    diag as diag,
    diag_embed as diag_embed,
    diagonal as diagonal,
    trace as trace,
)
from .random.dropout import (
    dropout as dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
)
from .matmul.einsum import einsum as einsum, tensordot as tensordot
from .indexing.embedding import embedding as embedding
from .elementwise.bessel import i0 as i0, i0e as i0e, i1 as i1, i1e as i1e
from .elementwise.cylinder import (
    airy_ai as airy_ai,
    bessel_j0 as bessel_j0,
    bessel_j1 as bessel_j1,
    bessel_y0 as bessel_y0,
    bessel_y1 as bessel_y1,
    modified_bessel_k0 as modified_bessel_k0,
    modified_bessel_k1 as modified_bessel_k1,
    scaled_modified_bessel_k0 as scaled_modified_bessel_k0,
    scaled_modified_bessel_k1 as scaled_modified_bessel_k1,
)
from .elementwise.gamma import (
    digamma as digamma,
    igamma as igamma,
    igammac as igammac,
    lgamma as lgamma,
    polygamma as polygamma,
    zeta as zeta,
)
from .elementwise.special import erf as erf, erfc as erfc, erfinv as erfinv
from .elementwise.exponential import (
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    log_sigmoid as log_sigmoid,
    xlogy as xlogy,
    logaddexp as logaddexp,
    pow as pow,
    sigmoid as sigmoid,
)
from .reduce.minmax import (
    ValuesIndices as ValuesIndices,
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    argmax as argmax,
    argmin as argmin,
    max as max,
    min as min,
)
from .selection.take import masked_scatter as masked_scatter, put as put, take as take
from .norm.group_norm import group_norm as group_norm, instance_norm as instance_norm
from .selection.histogram import bincount as bincount, histc as histc
from .indexing.getitem import index_put as index_put, slice_ as slice_
from .matmul.grouped import grouped_mm as grouped_mm
from .matmul.int_mm import int_mm as int_mm
from .pool.interpolate import interpolate as interpolate
from .movement.concat import (
    cat as cat,
    hstack as hstack,
    meshgrid as meshgrid,
    stack as stack,
    vstack as vstack,
)
from .loss.nll import nll_loss as nll_loss
from .matmul.matmul import bmm as bmm, matmul as matmul
from .loss.elementwise import (
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    hinge_embedding_loss as hinge_embedding_loss,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    margin_ranking_loss as margin_ranking_loss,
    mse_loss as mse_loss,
    smooth_l1_loss as smooth_l1_loss,
)
from .indexing.masked import (
    masked_fill as masked_fill,
    masked_select as masked_select,
    nonzero as nonzero,
    tril as tril,
    triu as triu,
)
from .pool.max_pool import (
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
)
from .pool.pool3d import (
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    avg_pool3d as avg_pool3d,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
)
from .quantized.fake import (
    fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine,
)
from .reduce.variance import (
    cosine_similarity as cosine_similarity,
    norm as norm,
    std as std,
    std_mean as std_mean,
    var as var,
    var_mean as var_mean,
)
from .reshaping import reshape as reshape
from .view import (
    broadcast_to as broadcast_to,
    expand as expand,
    flatten as flatten,
    move as move,
    movedim as movedim,
    permute as permute,
    squeeze as squeeze,
    swapaxes as swapaxes,
    t as t,
    transpose as transpose,
    unflatten as unflatten,
    unsqueeze as unsqueeze,
)
from .reduce.isclose import allclose as allclose, equal as equal, isclose as isclose
from .norm.batch_norm import batch_norm as batch_norm, normalize as normalize
from .conv.im2col import col2im as col2im, im2col as im2col
from .matmul.blas import (
    addmm as addmm,
    baddbmm as baddbmm,
    dot as dot,
    linear as linear,
    mm as mm,
    mv as mv,
    outer as outer,
    vdot as vdot,
)
from .random.binomial import binomial as binomial
from .random.rejection import (
    draw_gamma as draw_gamma,
    gamma_draw_slope as gamma_draw_slope,
    poisson as poisson,
)
from .random.distributions import (
    bernoulli as bernoulli,
    draw_exponential as draw_exponential,
    draw_integers as draw_integers,
    draw_normal as draw_normal,
    draw_permutation as draw_permutation,
    draw_uniform as draw_uniform,
    multinomial as multinomial,
    normal as normal,
)
from .movement.rearrange import (
    flip as flip,
    pad as pad,
    repeat as repeat,
    roll as roll,
    rot90 as rot90,
    tile as tile,
)
from .reduce.sum import (
    count_nonzero as count_nonzero,
    mean as mean,
    nanmean as nanmean,
    nansum as nansum,
    prod as prod,
    sum as sum,
)
from .movement.slice import (
    chunk as chunk,
    narrow as narrow,
    strided_scatter as strided_scatter,
    select as select,
    split as split,
    tensor_split as tensor_split,
    unbind as unbind,
)
from .attention.rope import rope as rope
from .norm.layer_norm import layer_norm as layer_norm, rms_norm as rms_norm
from .reduce.scan import cumprod as cumprod, cumsum as cumsum, diff as diff
from .indexing.scatter import (
    gather as gather,
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_select as index_select,
    one_hot as one_hot,
    repeat_interleave as repeat_interleave,
    scatter_add as scatter_add,
    take_along_dim as take_along_dim,
    unfold as unfold,
)
from .indexing.scatter_reduce import (
    index_reduce as index_reduce,
    scatter as scatter,
    scatter_reduce as scatter_reduce,
)
from .norm.softmax import (
    log_softmax as log_softmax,
    logsumexp as logsumexp,
    softmax as softmax,
)
from .selection.rank import (
    kthvalue as kthvalue,
    median as median,
    nanmedian as nanmedian,
)
from .selection.sort import (
    argsort as argsort,
    bucketize as bucketize,
    searchsorted as searchsorted,
    sort as sort,
    topk as topk,
)
from .elementwise.trigonometric import (
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cos as cos,
    cosh as cosh,
    hypot as hypot,
    sin as sin,
    sinh as sinh,
    tan as tan,
    tanh as tanh,
)
from .elementwise.unary import (
    abs as abs,
    ceil as ceil,
    copy as copy,
    floor as floor,
    frac as frac,
    neg as neg,
    reciprocal as reciprocal,
    round as round,
    rsqrt as rsqrt,
    sign as sign,
    sqrt as sqrt,
    square as square,
    trunc as trunc,
)
from .selection.combinations import combinations as combinations
from .selection.unique import unique as unique
from .elementwise.neighbour import nextafter as nextafter
from .elementwise.derived import (
    angle as angle,
    deg2rad as deg2rad,
    fill as fill,
    is_same_size as is_same_size,
    float_power as float_power,
    fmax as fmax,
    fmin as fmin,
    frexp as frexp,
    gcd as gcd,
    heaviside as heaviside,
    isneginf as isneginf,
    isposinf as isposinf,
    lcm as lcm,
    ldexp as ldexp,
    logaddexp2 as logaddexp2,
    logit as logit,
    mvlgamma as mvlgamma,
    positive as positive,
    rad2deg as rad2deg,
    rsub as rsub,
    sgn as sgn,
    signbit as signbit,
    sinc as sinc,
)
from .matmul.cross import cross as cross
from .matmul.combined import (
    addbmm as addbmm,
    addmv as addmv,
    addr as addr,
    chain_matmul as chain_matmul,
    inner as inner,
    kron as kron,
    matrix_power as matrix_power,
    vander as vander,
    vecdot as vecdot,
)
from .movement.regions import (
    as_strided as as_strided,
    as_strided_scatter as as_strided_scatter,
    diagflat as diagflat,
    diagonal_scatter as diagonal_scatter,
    narrow_copy as narrow_copy,
    split_with_sizes as split_with_sizes,
    select_scatter as select_scatter,
    slice_scatter as slice_scatter,
    sum_to_size as sum_to_size,
)
from .movement.stacking import (
    adjoint as adjoint,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    column_stack as column_stack,
    dsplit as dsplit,
    dstack as dstack,
    fliplr as fliplr,
    flipud as flipud,
    hsplit as hsplit,
    vsplit as vsplit,
)
from .reduce.gradient import gradient as gradient
from .reduce.distance import (
    cdist as cdist,
    dist as dist,
    pdist as pdist,
    renorm as renorm,
)
from .reduce.logcumsumexp import logcumsumexp as logcumsumexp
from .reduce.running_extreme import cummax as cummax
from .reduce.running_extreme import cummin as cummin
from .reduce.statistics import (
    aminmax as aminmax,
    corrcoef as corrcoef,
    cov as cov,
    cumulative_trapezoid as cumulative_trapezoid,
    trapezoid as trapezoid,
)
from .selection.membership import (
    argwhere as argwhere,
    histogram as histogram,
    isin as isin,
    isreal as isreal,
    unique_consecutive as unique_consecutive,
    unravel_index as unravel_index,
)
from .selection.quantile import (
    mode as mode,
    msort as msort,
    nanquantile as nanquantile,
    quantile as quantile,
)

NAMES = tuple(
    sorted(
        name
        for name, value in globals().items()
        if callable(value) and not name.startswith("_")
    )
)
"""Public functions of this module, beside `REGISTRY`."""

globals().update(
    {
        name: _takes_keywords(globals()[name])
        for name in NAMES
        if isinstance(globals()[name], _Function)
    }
)

_give_attributes(__name__)
