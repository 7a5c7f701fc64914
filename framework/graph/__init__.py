"""Hand-built graphs: run node by node, or analysed for fusion."""

from .compute_graph import (
    ComputeGraph as ComputeGraph,
)
from .compute_graph import (
    Node as Node,
)
from .compute_graph import (
    Params as Params,
)
from .compute_graph import (
    TensorOp as TensorOp,
)
from .compute_graph import (
    causal_attention as causal_attention,
)
