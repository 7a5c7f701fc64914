"""Recurrent networks: all steps of a layer as one op.

The products with the inputs are the caller's, for all steps at once; what depends on
the step before is here. The forward pass keeps the states alone. The gradient computes
the gates of all steps again from them, in one product, and goes back through the steps
with one product and one fused expression each. Where the gradient is not itself
recorded, a GPU takes each step of both passes by one kernel, and on the host NumPy goes
through them without recording any op.
"""

from .elman import rnn_steps
from .gru import gru_steps
from .lstm import lstm_steps

__all__ = ["gru_steps", "lstm_steps", "rnn_steps"]
