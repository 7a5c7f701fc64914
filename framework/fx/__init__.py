"""Graphs of modules: traced with proxies, changed node by node, and compiled again."""

from ..base.public_names import public_names as _public_names
from .code_writer import PythonCode
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy, TraceError
from .subgraph_rewriter import Match, replace_pattern
from .tracer import Tracer, symbolic_trace, wrap

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Match",
    "Node",
    "Proxy",
    "PythonCode",
    "TraceError",
    "Tracer",
    "Transformer",
    "map_aggregate",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
