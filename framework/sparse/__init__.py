"""Sparse tensors: coordinate format and compressed rows; PyTorch's `torch.sparse`."""

from .compressed import (
    SparseCscTensor as SparseCscTensor,
)
from .compressed import (
    SparseCsrTensor as SparseCsrTensor,
)
from .construct import (
    DoubleTensor as DoubleTensor,
)
from .construct import (
    FloatTensor as FloatTensor,
)
from .construct import (
    HalfTensor as HalfTensor,
)
from .construct import (
    IntTensor as IntTensor,
)
from .construct import (
    LongTensor as LongTensor,
)
from .construct import (
    sparse_compressed_tensor as sparse_compressed_tensor,
)
from .construct import (
    sparse_coo_tensor as sparse_coo_tensor,
)
from .construct import (
    sparse_csc_tensor as sparse_csc_tensor,
)
from .construct import (
    sparse_csr_tensor as sparse_csr_tensor,
)
from .construct import (
    spdiags as spdiags,
)
from .coo import SparseTensor as SparseTensor
from .invariants import (
    check_sparse_tensor_invariants as check_sparse_tensor_invariants,
)
from .products import addmm as addmm
from .products import mm as mm
from .products import sampled_addmm as sampled_addmm
from .reduce import log_softmax as log_softmax
from .reduce import softmax as softmax
from .reduce import sum as sum
from .rules import RULES as _RULES  # noqa: F401  # the classes have them then
