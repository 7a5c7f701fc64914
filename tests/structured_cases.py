"""Rows of the op table for products, convolution, pooling and dropout."""

import numpy as np

from tests.case import Case, sample
from tests.conv_cases import CONVOLUTION
from tests.pool_cases import POOLING
from tests.product_cases import PRODUCTS
from vkbackend.framework.base.philox import uniform
from vkbackend.framework.dispatch.op import REGISTRY

DROPOUT = {
    "dropout": Case(
        lambda x, stream: REGISTRY["dropout"](x, 0.25, stream),
        tuple(
            sample(shape, stream=(1, 2, 3, 4))
            for shape in ((7, 11), (4, 8), (0, 3), (1,))
        ),
        lambda x, stream: np.where(
            uniform(x.size, stream).reshape(x.shape) >= 0.25,
            x * x.dtype.type(1 / 0.75),
            x.dtype.type(0),
        ),
    ),
}

STRUCTURED = PRODUCTS | CONVOLUTION | POOLING | DROPOUT
