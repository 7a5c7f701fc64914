"""Mathematical constants, as PyTorch has them."""

import math

e = math.e
inf = math.inf
nan = math.nan
pi = math.pi
newaxis = None
"""In an index: a new dimension of size 1."""
