"""Rows of the op table for element-wise ops."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.case import Bad, Case, Draw, Oracle, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.dtype import DTYPES, convert, float32, int32
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY

FLOATS = "accepted: float16, bfloat16, float32, float64; call x.float() first"
SHAPES = ((7, 11), (4, 8), (), (0, 3), (3, 1, 5))


def unary(
    name: str,
    numpy: Oracle,
    torch: Oracle,
    low: float = -2,
    high: float = 2,
    **options: Any,
) -> Case:
    """Return the row of an op of one tensor."""
    samples = tuple(Sample((Draw(shape, low, high),)) for shape in SHAPES)
    return Case(REGISTRY[name], samples, numpy, torch, **options)


DESCENT: dict[str, Oracle] = {
    "sgd_step": lambda x, grad, size: x - size * grad,
    "weighted_sum": lambda x, y, decay, weight: decay * x + weight * y,
    "ema": lambda x, y, weight: x + weight * (y - x),
    "weighted_sum_square": lambda x, y, decay, weight: decay * x + weight * y**2,
    "root_scaled_step": lambda x, y, second, eps, size: (
        x - size * y / (second**0.5 + eps)
    ),
    "root_scaled_sum": lambda x, y, second, decay, eps: (
        decay * x + y / (second**0.5 + eps)
    ),
    "adam_step": lambda x, first, second, decay, root_scale, eps, size: (
        decay * x - size * first / (root_scale * second**0.5 + eps)
    ),
    "adam_step_capturable": lambda x, first, second, root_scale, size, decay, eps: (
        decay * x - size * first / (root_scale * second**0.5 + eps)
    ),
}


def descent(name: str, numbers: tuple[str, ...], tensors: int = 2) -> Case:
    """Return the row of a step of an optimizer, which has no gradient."""
    given = {each: 0.75 - 0.125 * k for k, each in enumerate(numbers)}
    samples = tuple(
        Sample(tuple(Draw(shape, 0.5, 2) for _ in range(tensors)), given)
        for shape in SHAPES
    )
    oracle = DESCENT[name]
    # The oracles round a float16 up to six times.
    return Case(REGISTRY[name], samples, oracle, oracle, gradient=False, scale=8)


PAIRS = (
    ((7, 11), (7, 11)),
    ((3, 1, 11), (7, 1)),
    ((4, 8), (8,)),
    ((5,), ()),
    ((0, 3), (3,)),
    ((1,), (1, 1)),
)


EQUAL = (((7, 11),) * 2, ((5,),) * 2, ((0, 3),) * 2, ((1,),) * 2)


def binary(
    name: str,
    numpy: Oracle,
    torch: Oracle,
    low: float = -2,
    high: float = 2,
    **options: Any,
) -> Case:
    """Return the row of an op of two tensors."""
    samples = tuple(
        Sample(tuple(Draw(shape, low, high) for shape in pair)) for pair in PAIRS
    )
    op = REGISTRY[name]
    usual = [each.name for each in (float32, int32) if each in op.dtypes]
    dtype = usual[0] if usual else next(iter(op.dtypes)).name
    broadcast = Bad(
        lambda ones: op(ones(3, 2, dtype=dtype), ones(4, 2, dtype=dtype)),
        ShapeError,
        f"{name}: shapes do not broadcast: (3, 2), (4, 2);"
        " dimension -2 has sizes [3, 4], which must be equal or 1",
    )
    return Case(op, samples, numpy, torch, bad=(broadcast,), **options)


def refuses_int(name: str, text: str = FLOATS) -> Bad:
    """Return a row for a float op that is given integers."""
    op = REGISTRY[name]
    return Bad(
        lambda ones: op(ones(3, dtype="int32")),
        DTypeError,
        f"{name}: `x` is int32; {text}",
    )


NO_TENSOR = Bad(
    lambda ones: ops.exp(1.0),  # type: ignore[arg-type]
    TypeError,
    "exp: no argument is a tensor; one of x must be",
)

SIGNS = {
    "neg": unary("neg", np.negative, torch.neg, exact=True),
    "abs": unary("abs", np.abs, torch.abs, exact=True),
    "sign": unary("sign", np.sign, torch.sign, exact=True),
    "square": unary("square", np.square, torch.square, exact=True),
    "copy": unary("copy", np.copy, torch.clone, exact=True),
    "sqrt": unary("sqrt", np.sqrt, torch.sqrt, 0.3, 4),
    "rsqrt": unary("rsqrt", lambda x: 1 / np.sqrt(x), torch.rsqrt, 0.3, 4),
    "reciprocal": unary("reciprocal", lambda x: 1 / x, torch.reciprocal, 0.3, 4),
    "floor": unary("floor", np.floor, torch.floor, exact=True),
    "ceil": unary("ceil", np.ceil, torch.ceil, exact=True),
    "round": unary("round", np.rint, torch.round, exact=True),
    "trunc": unary("trunc", np.trunc, torch.trunc, exact=True),
    "frac": unary("frac", lambda x: x - np.trunc(x), torch.frac, exact=True),
}

EXPONENTIAL = {
    "exp": unary("exp", np.exp, torch.exp, -3, 3, bad=(NO_TENSOR,)),
    "exp2": unary("exp2", np.exp2, torch.exp2, -3, 3),
    "expm1": unary("expm1", np.expm1, torch.expm1, -3, 3),
    "log": unary("log", np.log, torch.log, 0.3, 4),
    "log2": unary("log2", np.log2, torch.log2, 0.3, 4),
    "log10": unary("log10", np.log10, torch.log10, 0.3, 4),
    "log1p": unary("log1p", np.log1p, torch.log1p, -0.7, 3),
    "sigmoid": unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), torch.sigmoid, -3, 3),
    "log_sigmoid": unary(
        "log_sigmoid", lambda x: -np.log1p(np.exp(-x)), F.logsigmoid, -3, 3
    ),
}

TRIGONOMETRIC = {
    "sin": unary("sin", np.sin, torch.sin, -9, 9),
    "cos": unary("cos", np.cos, torch.cos, -9, 9),
    "tan": unary("tan", np.tan, torch.tan, -1.3, 1.3),
    "asin": unary("asin", np.arcsin, torch.asin, -0.9, 0.9),
    "acos": unary("acos", np.arccos, torch.acos, -0.9, 0.9),
    "atan": unary("atan", np.arctan, torch.atan, -3, 3),
    "sinh": unary("sinh", np.sinh, torch.sinh),
    "cosh": unary("cosh", np.cosh, torch.cosh),
    "tanh": unary("tanh", np.tanh, torch.tanh, -3, 3),
    "asinh": unary("asinh", np.arcsinh, torch.asinh, -3, 3),
    "acosh": unary("acosh", np.arccosh, torch.acosh, 1.3, 4),
    "atanh": unary("atanh", np.arctanh, torch.atanh, -0.8, 0.8),
    "atan2": binary("atan2", np.arctan2, torch.atan2),
    "hypot": binary("hypot", np.hypot, torch.hypot),
    "erf": unary("erf", None, torch.erf, -3, 3),
    "erfc": unary("erfc", None, torch.erfc, -3, 3),
}


def activation(
    name: str, torch: Oracle, call: Oracle = None, *more: dict[str, Any], **options: Any
) -> Case:
    """Return the row of an activation, with keywords for more samples."""
    samples = [
        Sample((Draw(shape, -4, 4),)) for shape in ((7, 11), (4, 8), (0, 3), (1,))
    ]
    samples += [Sample((Draw((7, 11), -4, 4),), keywords) for keywords in more]
    return Case(call or REGISTRY[name], tuple(samples), None, torch, **options)


def gelu_grad(x: Any) -> Any:
    """Return the derivative of `gelu`."""
    density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return torch.special.erfc(-x / math.sqrt(2)) / 2 + x * density


ACTIVATION = {
    "relu": unary("relu", lambda x: np.maximum(x, 0), torch.relu, exact=True),
    "hardtanh": activation(
        "hardtanh", F.hardtanh, None, {"min_val": -2, "max_val": 0.5}, exact=True
    ),
    "softshrink": activation("softshrink", F.softshrink, None, {"lambd": 1.5}),
    "leaky_relu": activation("leaky_relu", F.leaky_relu, None, {"negative_slope": 0.3}),
    "elu": activation("elu", F.elu, ops.elu, {"alpha": 0.7}),
    "gelu_exact": activation("gelu_exact", F.gelu, ops.gelu),
    "gelu_grad": activation("gelu_grad", gelu_grad),
    "slope_above_zero": Case(
        REGISTRY["slope_above_zero"],
        tuple(sample(*shapes) for shapes in EQUAL),
        lambda slope, x: np.where(x <= 0, 0, slope),
        # A gradient of zero for the second.
        lambda slope, x: torch.where(x <= 0, 0, slope) + 0 * x,
        exact=True,
    ),
    "slope_between": Case(
        REGISTRY["slope_between"],
        tuple(sample(*shapes, low=-0.5, high=1.25) for shapes in EQUAL),
        lambda slope, x, low, high: np.where((x <= low) | (x >= high), 0, slope),
        lambda slope, x, low, high: (
            torch.where((x <= low) | (x >= high), 0, slope) + 0 * x
        ),
        exact=True,
    ),
    "slope_outside": Case(
        REGISTRY["slope_outside"],
        tuple(sample(*shapes, lambd=0.75) for shapes in EQUAL),
        lambda slope, x, lambd: np.where(np.abs(x) <= lambd, 0, slope),
        lambda slope, x, lambd: torch.where(x.abs() <= lambd, 0, slope) + 0 * x,
        exact=True,
    ),
    "piecewise_grad": Case(
        REGISTRY["piecewise_grad"],
        tuple(
            Sample((Draw(shape, -4, 4), Draw(shape, -4, 4)))
            for shape in ((7, 11), (0, 3), (1,))
        ),
        None,
        # A gradient of zero for the second.
        lambda slope, x: slope + 0 * x,
        exact=True,
    ),
    "gelu_tanh": activation(
        "gelu_tanh",
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: ops.gelu(x, approximate="tanh"),
        bad=(
            Bad(
                lambda ones: ops.gelu(ones(2), "sigmoid"),  # type: ignore[arg-type]
                ValueError,
                'gelu: approximate is \'sigmoid\'; it must be "none" or "tanh"',
            ),
        ),
    ),
    "silu": activation("silu", F.silu),
    "softplus": activation("softplus", F.softplus, None, {"beta": 2, "threshold": 3}),
    "mish": activation("mish", F.mish),
    "softsign": activation("softsign", F.softsign),
    # PyTorch's own has the slope 1 / 6 in float32.
    "hardsigmoid": activation("hardsigmoid", lambda x: F.relu6(x + 3) / 6),
    "hardswish": activation("hardswish", F.hardswish),
}


def by_exponent(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return powers; of integers as Python has them, but 0 for a fraction."""
    if x.dtype.kind in "fc":
        return np.asarray(np.power(x, y))
    bits = 8 * x.dtype.itemsize
    low = int(np.iinfo(x.dtype).min)

    def power(base: Any, exponent: Any) -> Any:
        base, exponent = int(base), int(exponent)
        if exponent < 0:
            return 0 if base not in (1, -1) else base ** (exponent & 1)
        return (pow(base, exponent, 1 << bits) - low) % (1 << bits) + low

    return np.asarray(np.vectorize(power, otypes=[x.dtype])(x, y))


def quotient_towards_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return whole quotients as C has them, and 0 of an integer by 0."""
    if x.dtype.kind == "f":
        return np.asarray(np.trunc(x / y))
    low, bits = int(np.iinfo(x.dtype).min), 8 * x.dtype.itemsize

    def quotient(a: Any, b: Any) -> Any:
        a, b = int(a), int(b)
        size = abs(a) // abs(b) if b else 0
        return ((size if (a < 0) == (b < 0) else -size) - low) % (1 << bits) + low

    return np.asarray(np.vectorize(quotient, otypes=[x.dtype])(x, y))


ARITHMETIC = {
    "add": binary("add", np.add, torch.add, exact=True),
    "sub": binary("sub", np.subtract, torch.sub, exact=True),
    "mul": binary("mul", np.multiply, torch.mul, exact=True),
    "div": binary("div", np.divide, torch.div, 0.5, 2),
    "pow": binary("pow", by_exponent, torch.pow, 0.5, 2),
    "div_trunc": binary("div_trunc", quotient_towards_zero, None),
    "floor_divide": binary("floor_divide", np.floor_divide, None, exact=True),
    "remainder": binary("remainder", np.remainder, None),
    "fmod": binary("fmod", np.fmod, None, exact=True),
    "copysign": binary("copysign", np.copysign, torch.copysign, exact=True),
    "maximum": binary("maximum", np.maximum, torch.maximum, exact=True),
    "minimum": binary("minimum", np.minimum, torch.minimum, exact=True),
    "clamp_between": Case(
        REGISTRY["clamp_between"],
        tuple(sample(*shapes[:1], low=-0.5, high=1.25) for shapes in EQUAL),
        lambda x, low, high: np.clip(x, low, high),
        lambda x, low, high: torch.clamp(x, low, high),
        exact=True,
    ),
    # The gradient by what is compared is none, as in PyTorch.
    "slope_within": Case(
        lambda x, low, high: REGISTRY["slope_within"](x, x.detach(), low, high),
        tuple(sample(*shapes[:1], low=-0.5, high=1.25) for shapes in EQUAL),
        lambda x, low, high: np.where((x >= low) & (x <= high), x, 0),
        lambda x, low, high: torch.where((x >= low) & (x <= high), x, 0),
        exact=True,
    ),
    "clamp_normal": Case(
        REGISTRY["clamp_normal"],
        tuple(sample(*shapes[:1], low=-0.5, high=1.25) for shapes in EQUAL),
        lambda x, low, high: np.clip(x, low, high),
        lambda x, low, high: torch.clamp(x, low, high),
        exact=True,
    ),
    "slope_normal": Case(
        lambda x, low, high: REGISTRY["slope_normal"](x, x.detach(), low, high),
        tuple(sample(*shapes[:1], low=-0.5, high=1.25) for shapes in EQUAL),
        lambda x, low, high: np.where((x >= low) & (x <= high), x, 0),
        lambda x, low, high: torch.where((x >= low) & (x <= high), x, 0),
        exact=True,
    ),
    "clamp_min": binary("clamp_min", np.maximum, torch.clamp_min, exact=True),
    "clamp_max": binary("clamp_max", np.minimum, torch.clamp_max, exact=True),
    "lerp": Case(
        ops.lerp,
        (
            sample((7, 11), (7, 11), (7, 11)),
            sample((4, 8), (8,), (1, 1)),
            sample((0, 3), (3,), (1, 1)),
            sample((1,), (1,), (1,)),
        ),
        lambda x, end, weight: x + weight * (end - x),
        torch.lerp,
        scale=4,  # the oracles round a float16 four times
    ),
    "sgd_step": descent("sgd_step", ("size",)),
    "weighted_sum": descent("weighted_sum", ("decay", "weight")),
    "ema": descent("ema", ("weight",)),
    "weighted_sum_square": descent("weighted_sum_square", ("decay", "weight")),
    "root_scaled_step": descent("root_scaled_step", ("eps", "size"), 3),
    "root_scaled_sum": descent("root_scaled_sum", ("decay", "eps"), 3),
    "adam_step": descent("adam_step", ("decay", "root_scale", "eps", "size"), 3),
    "adam_step_capturable": descent("adam_step_capturable", ("decay", "eps"), 5),
    "addcmul": Case(
        ops.addcmul,
        (
            sample((7, 11), (7, 11), (7, 11), value=3),
            sample((4, 8), (8,), (4, 1), value=-2),
            sample((0, 3), (3,), (1, 1), value=2),
            sample((1,), (1,), (1,), value=2),
        ),
        lambda x, a, b, value: (
            x + x.dtype.type(value) * a * b
            if value > 0
            else x - x.dtype.type(-value) * a * b
        ),
        lambda x, a, b, value: torch.addcmul(x, a, b, value=value),
    ),
    "addcdiv": Case(
        ops.addcdiv,
        (
            Sample((Draw((7, 11)), Draw((7, 11)), Draw((7, 11), 1, 2)), {"value": 3}),
            Sample((Draw((4, 8)), Draw((8,)), Draw((4, 1), 1, 2)), {"value": 0.5}),
            Sample((Draw((0, 3)), Draw((3,)), Draw((1,), 1, 2)), {"value": 2}),
            Sample((Draw((1,)), Draw((1,)), Draw((1,), 1, 2)), {"value": 2}),
        ),
        lambda x, a, b, value: x + value * a / b,
        lambda x, a, b, value: torch.addcdiv(x, a, b, value=value),
    ),
}


def choice(name: str, numpy: Oracle, torch: Oracle) -> Case:
    """Return the row of an op without gradient, of two tensors."""
    return binary(name, numpy, torch, gradient=False)


COMPARE = {
    "eq": choice("eq", np.equal, torch.eq),
    "ne": choice("ne", np.not_equal, torch.ne),
    "lt": choice("lt", np.less, torch.lt),
    "le": choice("le", np.less_equal, torch.le),
    "gt": choice("gt", np.greater, torch.gt),
    "ge": choice("ge", np.greater_equal, torch.ge),
    "has_sign": unary("has_sign", np.signbit, torch.signbit, gradient=False),
    "mantissa": Case(
        lambda x: ops.frexp(x).mantissa,
        (sample((7, 11)), sample((0,)), sample(())),
        lambda x: np.frexp(x)[0],
        lambda x: torch.frexp(x).mantissa,
        exact=True,
    ),
    "exponent": Case(
        lambda x: ops.frexp(x).exponent,
        (sample((7, 11)), sample((0,)), sample(())),
        lambda x: np.frexp(x)[1],
        lambda x: torch.frexp(x).exponent,
        exact=True,
        gradient=False,
    ),
    "isnan": unary("isnan", np.isnan, torch.isnan, gradient=False),
    "isinf": unary("isinf", np.isinf, torch.isinf, gradient=False),
    "isfinite": unary("isfinite", np.isfinite, torch.isfinite, gradient=False),
    "logical_not": unary(
        "logical_not", np.logical_not, torch.logical_not, gradient=False
    ),
    "logical_and": choice("logical_and", np.logical_and, torch.logical_and),
    "logical_or": choice("logical_or", np.logical_or, torch.logical_or),
    "logical_xor": choice("logical_xor", np.logical_xor, torch.logical_xor),
    "where": Case(
        ops.where,
        (
            Sample((Draw((7, 11), 0, 2, "bool"), Draw((7, 11)), Draw((7, 11)))),
            Sample((Draw((7, 1), 0, 2, "bool"), Draw((11,)), Draw(()))),
            Sample((Draw((4, 8), 0, 2, "bool"), Draw((8,)), Draw((4, 8)))),
            Sample((Draw((0, 3), 0, 2, "bool"), Draw((3,)), Draw((1, 1)))),
            Sample((Draw((1,), 0, 2, "bool"), Draw((1,)), Draw((1,)))),
        ),
        np.where,
        torch.where,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.where(ones(2, dtype="int32"), ones(2), ones(2)),
                DTypeError,
                "where: `condition` is int32; accepted: bool",
            ),
        ),
    ),
}

BITWISE = {
    "bitwise_not": unary("bitwise_not", np.invert, torch.bitwise_not, gradient=False),
    "bitwise_and": choice("bitwise_and", np.bitwise_and, torch.bitwise_and),
    "bitwise_or": choice("bitwise_or", np.bitwise_or, torch.bitwise_or),
    "bitwise_xor": choice("bitwise_xor", np.bitwise_xor, torch.bitwise_xor),
    "bitwise_left_shift": choice(
        "bitwise_left_shift", np.left_shift, torch.bitwise_left_shift
    ),
    "bitwise_right_shift": choice(
        "bitwise_right_shift", np.right_shift, torch.bitwise_right_shift
    ),
}

CAST = {
    "cast": Case(
        lambda x, to: x.to(to),
        (
            sample((7, 11), to="int16"),
            sample((7, 11), to="float32"),
            sample((4, 8), to="bool"),
            sample((4, 8), to="uint8"),
            sample((4, 8), to="bfloat16"),
            sample((0, 3), to="float16"),
            sample((1,), to="int8"),
        ),
        lambda x, to: convert(x, DTYPES[to]),
        exact=True,
        gradient=False,  # a cast away from float64 loses what differences need
    ),
}

ELEMENTWISE = (
    SIGNS
    | EXPONENTIAL
    | TRIGONOMETRIC
    | ACTIVATION
    | ARITHMETIC
    | COMPARE
    | BITWISE
    | CAST
)
