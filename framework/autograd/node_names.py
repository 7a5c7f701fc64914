"""PyTorch's names of nodes, and of what they save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMES = {
    "adaptive_max_pool2d": "AdaptiveMaxPool2DBackward0",
    "batch_norm_tracked": "NativeBatchNormBackward0",
    "batch_norm_train": "NativeBatchNormBackward0",
    "cast": "ToCopyBackward0",
    "cholesky_factor": "LinalgCholeskyExBackward0",
    "col2im": "Col2ImBackward0",
    "complex_of": "ComplexBackward0",
    "concat": "CatBackward0",
    "conj_physical": "ConjBackward0",
    "conv2d": "ConvolutionBackward0",
    "conv2d_input_vjp": "ConvolutionBackward0",
    "copy": "CloneBackward0",
    "ctc_losses": "CtcLossBackward0",
    "determinant": "LinalgDetBackward0",
    "div_trunc": "DivBackward2",
    "dropout": "MulBackward0",
    "erfcx": "SpecialErfcxBackward0",
    "factored_determinant": "LinalgDetBackward0",
    "factored_logarithm": "LinalgSlogdetBackward0",
    "factored_solution": "LinalgSolveExBackward0",
    "gelu_exact": "GeluBackward0",
    "gelu_tanh": "GeluBackward0",
    "i0e": "SpecialI0EBackward0",
    "i1": "SpecialI1Backward0",
    "i1e": "SpecialI1EBackward0",
    "im2col": "Im2ColBackward0",
    "layer_norm": "NativeLayerNormBackward0",
    "linear_solution": "LinalgSolveExBackward0",
    "log1p": "Log1PBackward0",
    "log_determinant": "LinalgSlogdetBackward0",
    "log_ndtr": "SpecialLogNdtrBackward0",
    "max_pool2d": "MaxPool2DWithIndicesBackward0",
    "ndtri": "SpecialNdtriBackward0",
    "pseudo_inverse": "LinalgPinvBackward0",
    "qr_factors": "LinalgQrBackward0",
    "square": "PowBackward0",
    "strided_scatter": "ScatterBackward1",
    "triangular_solution": "LinalgSolveTriangularBackward0",
    "xlog1py": "SpecialXlog1PyBackward0",
}
"""PyTorch's names of nodes whose ops have other names."""

NUMBERS = ("add", "mul", "div", "sub")
"""Ops in which a number after a tensor is an input of PyTorch's node; in the first two,
whose operands may change places, one before it too."""

OVERLOADS = {
    "clamp_max": (1, 0),
    "clamp_min": (1, 0),
    "copysign": (0, 1),
    "fmod": (1, 0),
    "lerp": (1, 0),
    "pow": (1, 0, 2),
    "remainder": (1, 0),
    "xlogy": (0, 2, 1),
}
"""Numbers of PyTorch's overloads of an op: of tensors alone, and where a number is its
last operand or its first."""

SAVED_NAMES = {"result": "out", "exponent": "y", "other": "y"}
"""PyTorch's names of saved arguments, and those of the rules."""


def name_of_node(op: str, apply: Callable[..., Any]) -> str:
    """Return the name of an op's node as PyTorch forms it, as "AddBackward0".

    Parameters
    ----------
    op : str
        The op's name.
    apply : callable
        Its rule, with the places of operands as an attribute if these can be numbers.
    """
    if op == "in place":
        whole = getattr(apply, "whole", False)
        return f"torch::autograd::Copy{'Backwards' if whole else 'Slices'}"
    known = NAMES.get(op)
    if known is not None:
        return known
    present = getattr(apply, "present", (0,))
    if op == "sub" and present[0] < 0:
        return "RsubBackward1"
    words = op.split("_")
    name = "".join(map(str.capitalize, words)).replace(" ", "")
    overloads = OVERLOADS.get(op)
    if overloads is None:
        return f"{name}Backward0"
    place = 0 if min(present) >= 0 else 2 if present[0] < 0 else 1
    return f"{name}Backward{overloads[place]}"
