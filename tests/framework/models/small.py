"""A small model, made without a checkpoint."""

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


def small_llama() -> fw.models.Llama:
    """Return a Llama model with random parameters."""
    model = fw.models.Llama(fw.models.ModelConfig(CONFIG)).eval()
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for parameter in model.parameters():
            parameter.copy_(fw.tensor(rng.standard_normal(parameter.shape, np.float32)))
    return model
