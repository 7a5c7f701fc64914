"""Weights and data of the programs, drawn by NumPy: the same in any library."""

import numpy as np


def seeded(model, seed=0):
    """Fill a model's parameters: matrices by fan-in, norms near one, biases near zero."""
    rng = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        array = rng.standard_normal(shape)
        if len(shape) > 1:
            array /= np.sqrt(np.prod(shape[1:]))
        else:
            array = 0.02 * array + (1.0 if name.endswith("weight") else 0.0)
        parameter.data.copy_(parameter.new_tensor(array.astype(np.float32)))
    return model


def normal(*shape, seed=1):
    """Return normally distributed float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(high, *shape, seed=2):
    """Return int64 numbers from 0 to `high` - 1."""
    return np.random.default_rng(seed).integers(0, high, shape)
