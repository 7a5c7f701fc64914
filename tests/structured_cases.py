"""Rows of the op table for products, convolution, pooling and dropout."""

import numpy as np

from tests.case import Case, sample
from tests.conv_cases import CONVOLUTION
from tests.pool_cases import POOLING
from tests.product_cases import PRODUCTS
from vkbackend.framework.op import REGISTRY
from vkbackend.framework.rng import uniform

DROPOUT = {
    "dropout": Case(
        lambda x, stream: REGISTRY["dropout"](x, 0.25, stream),
        (sample((7, 11), stream=(1, 2, 3, 4)), sample((4, 8), stream=(5, 6, 7, 8))),
        lambda x, stream: np.where(
            uniform(x.size, stream).reshape(x.shape) >= 0.25,
            x * x.dtype.type(1 / 0.75),
            x.dtype.type(0),
        ),
    ),
}

STRUCTURED = PRODUCTS | CONVOLUTION | POOLING | DROPOUT
