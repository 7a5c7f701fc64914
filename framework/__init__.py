"""Tensors, autograd and neural networks on any Vulkan GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from ..collector import collector_paused as _collector_paused

with _collector_paused():
    # With these comes nearly all that is imported below. All of that stays: to look
    # through it for garbage took a sixth of the time.
    from . import fft as _fft, nn as _nn, runtime as _runtime, special as _special  # noqa: F401

from . import (
    autograd as autograd,
    fft as fft,
    linalg as linalg,
    nn as nn,
    ops as ops,
    random as random,
    special as special,
    version as version,
)
from .base.autocast_statements import (
    autocast_decrement_nesting as autocast_decrement_nesting,
    autocast_increment_nesting as autocast_increment_nesting,
    clear_autocast_cache as clear_autocast_cache,
    get_autocast_cpu_dtype as get_autocast_cpu_dtype,
    get_autocast_gpu_dtype as get_autocast_gpu_dtype,
    is_autocast_cache_enabled as is_autocast_cache_enabled,
    set_autocast_cache_enabled as set_autocast_cache_enabled,
    set_autocast_cpu_dtype as set_autocast_cpu_dtype,
    set_autocast_cpu_enabled as set_autocast_cpu_enabled,
    set_autocast_dtype as set_autocast_dtype,
    set_autocast_enabled as set_autocast_enabled,
    set_autocast_gpu_dtype as set_autocast_gpu_dtype,
)
from .autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
)
from .autograd import functional as _functional  # noqa: F401 - it is there then
from .autograd.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference as is_inference,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .nn.functional import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    avg_pool1d as avg_pool1d,
    bilinear as bilinear,
    celu as celu,
    celu_ as celu_,
    channel_shuffle as channel_shuffle,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_tbc as conv_tbc,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    cosine_similarity as cosine_similarity,
    hardshrink as hardshrink,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    native_channel_shuffle as native_channel_shuffle,
    pairwise_distance as pairwise_distance,
    pdist as pdist,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    prelu as prelu,
    relu_ as relu_,
    rms_norm as rms_norm,
    rrelu_ as rrelu_,
    selu as selu,
    selu_ as selu_,
    threshold as threshold,
    threshold_ as threshold_,
)
from .nn.native import (
    adaptive_max_pool1d as adaptive_max_pool1d,
    affine_grid_generator as affine_grid_generator,
    alpha_dropout as alpha_dropout,
    alpha_dropout_ as alpha_dropout_,
    batch_norm as batch_norm,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    constant_pad_nd as constant_pad_nd,
    cosine_embedding_loss as cosine_embedding_loss,
    ctc_loss as ctc_loss,
    dropout as dropout,
    dropout_ as dropout_,
    embedding as embedding,
    embedding_bag as embedding_bag,
    embedding_renorm_ as embedding_renorm_,
    feature_alpha_dropout as feature_alpha_dropout,
    feature_alpha_dropout_ as feature_alpha_dropout_,
    feature_dropout as feature_dropout,
    feature_dropout_ as feature_dropout_,
    grid_sampler as grid_sampler,
    group_norm as group_norm,
    hinge_embedding_loss as hinge_embedding_loss,
    instance_norm as instance_norm,
    kl_div as kl_div,
    layer_norm as layer_norm,
    margin_ranking_loss as margin_ranking_loss,
    poisson_nll_loss as poisson_nll_loss,
    rrelu as rrelu,
    triplet_margin_loss as triplet_margin_loss,
)
from .jit import jit as jit
from .streams import Event as Event, Stream as Stream
from .runtime import (
    SymFloat as SymFloat,
    SymInt as SymInt,
    get_device_module as get_device_module,
    sym_float as sym_float,
    sym_int as sym_int,
    sym_max as sym_max,
    sym_min as sym_min,
    sym_not as sym_not,
    _assert as _assert,
    _assert_async as _assert_async,
    _check as _check,
    _check_index as _check_index,
    _check_not_implemented as _check_not_implemented,
    _check_type as _check_type,
    _check_value as _check_value,
    _shape_as_tensor as _shape_as_tensor,
    is_autocast_cpu_enabled as is_autocast_cpu_enabled,
    is_distributed as is_distributed,
    is_warn_always_enabled as is_warn_always_enabled,
    set_anomaly_enabled as set_anomaly_enabled,
    set_default_tensor_type as set_default_tensor_type,
    set_warn_always as set_warn_always,
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    compile as compile,
    get_deterministic_debug_mode as get_deterministic_debug_mode,
    get_num_interop_threads as get_num_interop_threads,
    get_num_threads as get_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,  # noqa: E501
    set_deterministic_debug_mode as set_deterministic_debug_mode,
    set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads,
    set_num_threads as set_num_threads,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from .eager.base_tensor import evaluate as _evaluate
from .tensor.copies import (
    alias_copy as alias_copy,
    as_strided_copy as as_strided_copy,
    detach_copy as detach_copy,
    diagonal_copy as diagonal_copy,
    expand_copy as expand_copy,
    permute_copy as permute_copy,
    select_copy as select_copy,
    slice_copy as slice_copy,
    split_copy as split_copy,
    split_with_sizes_copy as split_with_sizes_copy,
    squeeze_copy as squeeze_copy,
    t_copy as t_copy,
    transpose_copy as transpose_copy,
    unbind_copy as unbind_copy,
    unfold_copy as unfold_copy,
    unsqueeze_copy as unsqueeze_copy,
    view_copy as view_copy,
)
from .tensor.factories import (
    empty as empty,
    empty_like as empty_like,
    empty_strided as empty_strided,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    scalar_tensor as scalar_tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)
from .tensor.from_data import (
    as_tensor as as_tensor,
    asarray as asarray,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    tensor as tensor,
    to_dlpack as to_dlpack,
)
from .tensor.sequences import (
    arange as arange,
    eye as eye,
    linspace as linspace,
    logspace as logspace,
    range as range,
    tri as tri,
)
from .tensor.printing import set_printoptions as set_printoptions
from .tensor.queries import (
    clone as clone,
    detach as detach,
    is_complex as is_complex,
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_nonzero as is_nonzero,
    is_signed as is_signed,
    is_storage as is_storage,
    is_tensor as is_tensor,
    numel as numel,
    typename as typename,
)
from .tensor.tensor_types import (
    BFloat16Tensor as BFloat16Tensor,
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
)
from .tensor.storage import (
    TypedStorage as TypedStorage,
    UntypedStorage as UntypedStorage,
)
from .base.defaults import (
    get_default_device as get_default_device,
    get_default_dtype as get_default_dtype,
    set_default_device as set_default_device,
    set_default_dtype as set_default_dtype,
)
from .base.dtype_limits import finfo as finfo, iinfo as iinfo
from .base.memory_format import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    jagged as jagged,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from .base.numbers import (
    e as e,
    inf as inf,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
)
from .base.shape import Size as Size
from .version import __version__ as __version__
from .base.device import device as device, devices as devices
from .base.device import (
    set_index_checks as set_index_checks,
)
from .base.index_checks import is_index_checks_enabled as is_index_checks_enabled
from .base.dtype import (
    DType as DType,
    bfloat16 as bfloat16,
    bool_ as bool_,
    can_cast as can_cast,
    float16 as float16,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float32 as float32,
    complex32 as complex32,
    complex64 as complex64,
    complex128 as complex128,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as promote_types,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from .ops import (
    ValuesIndices as ValuesIndices,
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    addcdiv as addcdiv,
    addcmul as addcmul,
    addmm as addmm,
    all as all,
    allclose as allclose,
    amax as amax,
    amin as amin,
    any as any,
    argmax as argmax,
    argmin as argmin,
    argsort as argsort,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    baddbmm as baddbmm,
    bernoulli as bernoulli,
    bincount as bincount,
    binomial as binomial,
    bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    bmm as bmm,
    broadcast_to as broadcast_to,
    bucketize as bucketize,
    cat as cat,
    ceil as ceil,
    chunk as chunk,
    clamp as clamp,
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    count_nonzero as count_nonzero,
    cumprod as cumprod,
    cumsum as cumsum,
    diag as diag,
    diag_embed as diag_embed,
    diagonal as diagonal,
    diff as diff,
    digamma as digamma,
    div as div,
    dot as dot,
    einsum as einsum,
    eq as eq,
    equal as equal,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    flatten as flatten,
    flip as flip,
    floor as floor,
    floor_divide as floor_divide,
    fmod as fmod,
    frac as frac,
    gather as gather,
    ge as ge,
    gt as gt,
    histc as histc,
    hstack as hstack,
    hypot as hypot,
    i0 as i0,
    igamma as igamma,
    igammac as igammac,
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_put as index_put,
    index_select as index_select,
    int_mm as int_mm,
    isclose as isclose,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    kthvalue as kthvalue,
    le as le,
    lerp as lerp,
    lgamma as lgamma,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    log_softmax as log_softmax,
    logaddexp as logaddexp,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    logsumexp as logsumexp,
    lt as lt,
    masked_fill as masked_fill,
    masked_scatter as masked_scatter,
    masked_select as masked_select,
    matmul as matmul,
    max as max,
    maximum as maximum,
    mean as mean,
    median as median,
    meshgrid as meshgrid,
    min as min,
    minimum as minimum,
    mm as mm,
    movedim as movedim,
    mul as mul,
    multinomial as multinomial,
    mv as mv,
    nan_to_num as nan_to_num,
    nanmean as nanmean,
    nansum as nansum,
    narrow as narrow,
    ne as ne,
    neg as neg,
    nonzero as nonzero,
    norm as norm,
    outer as outer,
    permute as permute,
    poisson as poisson,
    polygamma as polygamma,
    pow as pow,
    prod as prod,
    put as put,
    reciprocal as reciprocal,
    relu as relu,
    remainder as remainder,
    repeat_interleave as repeat_interleave,
    reshape as reshape,
    result_type as result_type,
    roll as roll,
    rot90 as rot90,
    round as round,
    rsqrt as rsqrt,
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_reduce as scatter_reduce,
    searchsorted as searchsorted,
    select as select,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    softmax as softmax,
    sort as sort,
    split as split,
    sqrt as sqrt,
    square as square,
    squeeze as squeeze,
    stack as stack,
    std as std,
    std_mean as std_mean,
    sub as sub,
    sum as sum,
    t as t,
    take as take,
    take_along_dim as take_along_dim,
    tan as tan,
    tanh as tanh,
    tensor_split as tensor_split,
    tensordot as tensordot,
    tile as tile,
    topk as topk,
    trace as trace,
    transpose as transpose,
    tril as tril,
    triu as triu,
    trunc as trunc,
    unbind as unbind,
    unflatten as unflatten,
    unique as unique,
    unsqueeze as unsqueeze,
    var as var,
    var_mean as var_mean,
    vdot as vdot,
    vstack as vstack,
    where as where,
    xlogy as xlogy,
)
from .kernels.tensor_cores import (
    allow_float16_accumulation as allow_float16_accumulation,
    get_float32_matmul_precision as get_float32_matmul_precision,
    set_float32_matmul_precision as set_float32_matmul_precision,
)
from .base.modes import (
    autocast as autocast,
    get_autocast_dtype as get_autocast_dtype,
    is_autocast_available as is_autocast_available,
    is_autocast_enabled as is_autocast_enabled,
)
from .tensor.low_rank import (
    pca_lowrank as pca_lowrank,
    svd_lowrank as svd_lowrank,
)
from .tensor.matrix_norms import (
    frobenius_norm as frobenius_norm,
    nuclear_norm as nuclear_norm,
)
from .tensor.random import (
    normal as normal,
    rand as rand,
    rand_like as rand_like,
    randint as randint,
    randint_like as randint_like,
    randn as randn,
    randn_like as randn_like,
    randperm as randperm,
)
from .base.philox import (
    Generator as Generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    default_generator as default_generator,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from .tensor.foreach import FOREACH as _FOREACH
from .tensor.functions import FUNCTIONS as _FUNCTIONS
from .tensor.windows import (
    bartlett_window as bartlett_window,
    blackman_window as blackman_window,
    hamming_window as hamming_window,
    hann_window as hann_window,
    kaiser_window as kaiser_window,
    tril_indices as tril_indices,
    triu_indices as triu_indices,
)
from .tensor.tensor import Tensor as Tensor
from .autotune.autotune import autotune as autotune

from .addresses import finder as _finder
from .addresses.table import LAZY as _LAZY, LAZY_NAMES as _LAZY_NAMES
from .base.late_modules import late_function as _late_function
from .tensor.methods.sparse import CONVERSIONS as _CONVERSIONS
from . import torchscript as _torchscript

eval = _evaluate
_torchscript.install()
_finder.install()
_CONVERSIONS.update(
    to_sparse=_late_function("sparse.construct:to_sparse"),
    sparse_mask=_late_function("sparse.construct:sparse_mask"),
)

globals().update(_FOREACH)
globals().update(
    (name, each) for name, each in _FUNCTIONS.items() if name not in globals()
)

_INTERNAL = frozenset(
    "addresses annotations base codegen data debug dispatch eager graph io ir kernels"
    " runtime scheduler torchscript".split()
)
_late_names = {*_LAZY_NAMES, *[name for name in _LAZY if "." not in name]}


def __dir__() -> list[str]:
    """Return the public names, without the packages behind them."""
    return sorted(
        name
        for name in {*globals(), *_late_names}
        if name not in _INTERNAL and (name[:1] != "_" or name[:2] == "__")
    )


if _TYPE_CHECKING:  # what is loaded when it is asked for; see `addresses.table`
    from . import (
        amp as amp,
        backends as backends,
        cuda as cuda,
        data as data,
        distributions as distributions,
        func as func,
        graph as graph,
        models as models,
        mps as mps,
        nested as nested,
        optim as optim,
        sparse as sparse,
        utils as utils,
        xpu as xpu,
    )
    from .cuda import (
        AcceleratorError as AcceleratorError,
        OutOfMemoryError as OutOfMemoryError,
    )
    from .debug.fusion_report import (
        FusionReport as FusionReport,
        fusion_report as fusion_report,
    )
    from .debug.profiler import profile as profile
    from .func.vmap import vmap as vmap
    from .futures import Future as Future
    from .io.archive_reader import PyTorchFileReader as PyTorchFileReader
    from .io.serialization import load as load, save as save
    from .optim.grad_scaler import GradScaler as GradScaler
    from .tensor.quantized import (
        QuantizedTensor as QuantizedTensor,
        quantize as quantize,
    )
    from .sparse.construct import (
        sparse_compressed_tensor as sparse_compressed_tensor,
        sparse_coo_tensor as sparse_coo_tensor,
        sparse_csc_tensor as sparse_csc_tensor,
        sparse_csr_tensor as sparse_csr_tensor,
    )

    def __getattr__(name: str) -> _Any:
        """Return one of the functions that only their table names."""


# PyTorch's names of dtypes; three hide Python's own here.
dtype = DType
bool = bool_
double = float64
cfloat = complex64
chalf = complex32
cdouble = complex128
float = float32
half = float16
int = int32
long = int64
short = int16

__all__ = [name for name in __dir__() if name[:1] != "_"]
