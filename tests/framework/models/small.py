"""A small model, made without a checkpoint."""

import json
from pathlib import Path

import numpy as np

import vkbackend.framework as fw

CONFIG = {
    "model_type": "llama",
    "vocab_size": 11,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def small_llama(**settings: int) -> fw.models.Llama:
    """Return a Llama model with random parameters."""
    model = fw.models.Llama(fw.models.ModelConfig(CONFIG | settings)).eval()
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for parameter in model.parameters():
            parameter.copy_(fw.tensor(rng.standard_normal(parameter.shape, np.float32)))
    return model


def write_checkpoint(folder: Path) -> None:
    """Write a Llama model and a tokenizer to a new folder.

    Greedy text does not end by itself, whatever rounding does: the logit of the token
    that ends one is 0, and some of the others' are above.
    """
    # Where it is needed: without the package, tests that import it are skipped.
    from tests.framework.models.words import END, byte_pairs

    folder.mkdir()
    byte_pairs(folder)
    size = {"vocab_size": 300}
    (folder / "config.json").write_text(json.dumps(CONFIG | size))
    parameters = small_llama(**size).state_dict()
    parameters["lm_head.weight"][END] = 0
    fw.save(parameters, folder / "model.safetensors")
