"""How a program over rows is divided into passes."""

from tests.framework.codegen.graphs import apply, memory, result
from tests.framework.codegen.rows import GPU, SOFTWARE, normalised, program, softmax
from vkbackend.framework.codegen.ir.passes import Pass, passes
from vkbackend.framework.codegen.ir.program import Reference
from vkbackend.framework.codegen.lower import build_kernel

X, POWER = Reference("in", 0), Reference("op", 2)


def test_softmax_keeps_elements_and_powers() -> None:
    schedule = passes(program(softmax(), GPU), keep=True)
    assert schedule.before == ()
    assert schedule.passes == (
        Pass(loads=(0,), kept=(), steps=(), folds=(0,), outputs=(), after=(0,)),
        Pass(loads=(), kept=(X,), steps=(1, 2), folds=(3,), outputs=(), after=(3,)),
        Pass(loads=(), kept=(POWER,), steps=(4,), folds=(), outputs=(0,), after=()),
    )
    assert schedule.kept == (X, POWER)


def test_softmax_is_computed_anew_where_nothing_is_kept() -> None:
    schedule = passes(program(softmax(), SOFTWARE), keep=False)
    assert schedule.passes == (
        Pass(loads=(0,), kept=(), steps=(), folds=(0,), outputs=(), after=(0,)),
        Pass(loads=(0,), kept=(), steps=(1, 2), folds=(3,), outputs=(), after=(3,)),
        Pass(loads=(0,), kept=(), steps=(1, 2, 4), folds=(), outputs=(0,), after=()),
    )


def test_what_only_the_last_pass_needs_is_loaded_there() -> None:
    schedule = passes(program(normalised(), GPU), keep=True)
    assert [walk.loads for walk in schedule.passes] == [(0,), (), (1,)]
    # Steps of rows come after the pass that they wait for.
    assert [len(walk.after) for walk in schedule.passes] == [2, 4, 0]


def test_an_element_that_is_wanted_is_written_as_soon_as_it_is_known() -> None:
    schedule = passes(program(softmax(), GPU, wanted=3), keep=True)
    assert [walk.outputs for walk in schedule.passes] == [(), (0,), (2,)]


def test_an_element_wise_program_has_one_pass() -> None:
    total = apply("add", memory((7, 11)), memory((11,)))
    nodes = [total, apply("relu", result(total))]
    built = build_kernel(nodes, {id(node.outputs[0]) for node in nodes})
    assert passes(built.program, keep=False).passes == (
        Pass(loads=(0, 1), kept=(), steps=(0, 1), folds=(), outputs=(0, 1), after=()),
    )
