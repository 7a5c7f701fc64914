"""The op table: samples, references and refusals of each op.

One row drives the comparison with NumPy and PyTorch, the gradient checks and the error
texts, on the host and on the device; `tests/framework/dispatch/test_op.py` runs it.
Sizes are primes, 1 and 0, and one multiple of four.
"""

from tests.attention_cases import ATTENTION
from tests.case import Case
from tests.complex_cases import COMPLEX
from tests.derived_cases import DERIVED
from tests.elementwise_cases import ELEMENTWISE
from tests.factorization_cases import FACTORIZATIONS
from tests.indexing_cases import INDEXING
from tests.loss_cases import LOSSES
from tests.movement_cases import CREATION, MOVEMENT
from tests.norm_cases import NORMALIZATION
from tests.quantized_cases import QUANTIZED
from tests.recurrent_cases import RECURRENT
from tests.reduce_cases import REDUCTIONS
from tests.special_cases import SPECIAL
from tests.structured_cases import STRUCTURED

CASES: dict[str, Case] = (
    ELEMENTWISE
    | CREATION
    | MOVEMENT
    | INDEXING
    | REDUCTIONS
    | STRUCTURED
    | NORMALIZATION
    | LOSSES
    | ATTENTION
    | SPECIAL
    | RECURRENT
    | DERIVED
    | FACTORIZATIONS
    | COMPLEX
    | QUANTIZED
)
"""Every op of the registry, by its name there."""
