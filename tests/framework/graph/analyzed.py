"""Random graphs for the analyzer, with inputs; whatever is computed stays moderate."""

import numpy as np
from hypothesis import strategies as st

from vkbackend.framework.base.shape import broadcast_shapes
from vkbackend.framework.graph.analyzer import FusionAnalyzer

WHOLE, ROWS, ONE = (3, 5), (3, 1), (1,)
GENTLE = ("relu", "sigmoid", "tanh", "gelu", "neg", "abs")
MEMORY = ("copy", "store")
PAIRS = ("add", "sub", "mul", "max", "min")
REDUCTIONS = ("sum", "mean", "reduce_max", "reduce_min")

Case = tuple[FusionAnalyzer, dict[int, np.ndarray], list[int]]


@st.composite
def cases(
    draw: st.DrawFn,
    most: int = 12,
    precisions: tuple[str, ...] = (),
    memory: tuple[str, ...] = MEMORY,
) -> Case:
    """Return a graph, its inputs, and nodes whose results the user wants."""
    graph = FusionAnalyzer()
    known = [graph.add_input(WHOLE), graph.add_input(WHOLE), graph.add_input(ROWS)]
    for _ in range(draw(st.integers(1, most))):
        x = graph.node(draw(st.sampled_from(known)))
        kinds = [*GENTLE, *memory, *PAIRS]
        kinds += REDUCTIONS if x.shape == WHOLE else ()
        op = draw(st.sampled_from([*kinds, *(["cast"] if precisions else [])]))
        if op in PAIRS:
            same = [n for n in known if graph.node(n).precision == x.precision]
            y = graph.node(draw(st.sampled_from(same)))
            shape = broadcast_shapes(op, x.shape, y.shape)
            known.append(graph.add_node(op, shape, (x.id, y.id)))
        elif op in REDUCTIONS:
            shape = draw(st.sampled_from([ROWS, ROWS, ONE]))
            known.append(graph.add_node(op, shape, (x.id,)))
        else:
            to = draw(st.sampled_from(precisions)) if op == "cast" else ""
            known.append(graph.add_node(op, x.shape, (x.id,), to=to))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    inputs = {
        node.id: rng.uniform(-1, 1, node.shape).astype(np.float32)
        for node in graph.inputs
    }
    wanted = st.lists(st.sampled_from(range(len(graph.nodes))), unique=True)
    return graph, inputs, draw(wanted)
