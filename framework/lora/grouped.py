"""Adapters of experts: a pair of factors for each matrix of a stack."""

from __future__ import annotations

from .. import nn
from ..autograd.engine import no_grad
from ..models.experts import Experts
from ..nn import init
from ..tensor.tensor import Tensor
from .layers import LoRALayer, Settings, adapter_dtype

GROUPED = (nn.GroupedLinear, nn.QGroupedLinear)
"""Layers that become `LoRAGrouped`."""


class _Factors(nn.GroupedLinear):
    """One of two factors of each matrix; its own type keeps it from being quantized."""


class LoRAGrouped(LoRALayer):
    """x W^T + scale * (x A^T) B^T with a W, A and B for each group of rows.

    Parameters
    ----------
    base_layer : GroupedLinear or QGroupedLinear
        Its parameters stay as they are.
    settings : Settings

    Attributes
    ----------
    lora_A : GroupedLinear, weight (groups, rank, in_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in_features).
    lora_B : GroupedLinear, weight (groups, out_features, rank)
        Zeros, so that the layer starts as the frozen one.
    is_fused : bool
        Whether it is a part of one adapter of several layers of experts, which have
        one `lora_A` then.
    """

    def __init__(self, base_layer: nn.Module, settings: Settings) -> None:
        super().__init__(base_layer, settings)
        weight = self.weight
        groups, rows, columns = weight.shape
        place, dtype = weight.device, adapter_dtype(weight.dtype)
        self.groups: int = groups
        self.is_fused = False
        self.in_features, self.out_features = columns, rows
        self.lora_dropout = nn.Dropout(settings.dropout) if settings.dropout else None
        self.lora_A = _Factors(groups, columns, settings.rank, place, dtype)
        self.lora_B = _Factors(groups, settings.rank, rows, place, dtype)
        init.zeros_(self.lora_B.weight)
        self.train(base_layer.training)

    def forward(
        self,
        input: Tensor,
        *,
        offs: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> Tensor:
        """Return the layer's result; arguments as of `GroupedLinear.forward`."""
        out: Tensor = self.base_layer(input, offs=offs, numbers=numbers)
        if self.merged:
            return out
        if self.lora_dropout is not None:
            input = self.lora_dropout(input)
        # Factors have float32 beside activations of 16 bits.
        dtype = self.lora_A.weight.dtype
        inner = self.lora_A(input.to(dtype), offs=offs, numbers=numbers)
        inner = inner * self.settings.scale
        product: Tensor = self.lora_B(inner, offs=offs, numbers=numbers)
        return out + product.to(out.dtype)

    def factors(self) -> dict[str, Tensor]:
        """Return A and B, by their names in files."""
        return {
            "lora_A.weight": self.lora_A.weight,
            "lora_B.weight": self.lora_B.weight,
        }

    def product(self) -> Tensor:
        """Return scale * B A of each matrix, without a gradient."""
        with no_grad():
            made: Tensor = self.lora_B.weight @ self.lora_A.weight * self.settings.scale
            return made


def names_of_experts(model: nn.Module) -> dict[str, list[str]]:
    """Return what checkpoints call the layers of experts that a stack holds, by name.

    Parameters
    ----------
    model : nn.Module

    Returns
    -------
    dict of str to list of str
        As "mlp.experts.gate": ["mlp.experts.0.gate_proj", "mlp.experts.1.gate_proj"].
    """
    return {
        f"{name}.{stack.removesuffix('.weight')}": [
            f"{name}.{part.removesuffix('.weight')}" for part in parts
        ]
        for name, module in model.named_modules()
        if isinstance(module, Experts)
        for stack, parts in module.parts().items()
    }
