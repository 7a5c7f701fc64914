"""Checkpoints of small models with random weights, made by transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
}
TOKENS = np.random.default_rng(0).integers(0, SIZES["vocab_size"], (2, 17))
MASK = np.arange(17) >= np.array([[0], [5]])
"""False where the shorter of two prompts is padded, at the left."""


def saved(
    folder: Path,
    kind: str,
    dtype: Any = None,
    task: str = "AutoModelForCausalLM",
    **settings: Any,
) -> Any:
    """Return a model of transformers, saved to a folder.

    Norms and biases have values of their own, which would not show otherwise.
    """
    config = getattr(transformers, f"{kind}Config")(**settings)
    torch.manual_seed(0)
    make = getattr(transformers, task).from_config
    # In plain PyTorch: fused attention leaves out soft caps in some versions.
    model = make(config, attn_implementation="eager").eval()
    # Left on PyTorch's own class, whose names another test compares.
    if hasattr(torch.nn.Module, "smart_apply"):
        del torch.nn.Module.smart_apply
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 1, 0.2)
    if dtype is not None:
        model.to(dtype)
    model.save_pretrained(folder)
    return model


def logits(model: Any, tokens: np.ndarray = TOKENS) -> np.ndarray:
    """Return what a model of transformers gives."""
    with torch.no_grad():
        found: np.ndarray = model(torch.from_numpy(tokens)).logits.float().numpy()
    return found


def continued(model: Any, count: int, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the tokens of a model of transformers, the most likely ones."""
    given = torch.from_numpy(TOKENS)
    seen = torch.ones_like(given) if mask is None else torch.from_numpy(mask).long()
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.no_grad():
        found: np.ndarray = model.generate(
            given,
            attention_mask=seen,
            max_new_tokens=count,
            **options,
        ).numpy()
    return found
