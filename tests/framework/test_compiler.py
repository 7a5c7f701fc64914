"""The compiler's switches leave functions as they are."""

import vkbackend.framework as fw


def test_functions_stay_what_they_are() -> None:
    def function(x: int) -> int:
        return x

    assert fw.compiler.disable(function) is function
    assert fw.compiler.disable(recursive=False)(function) is function
    assert fw.compiler.allow_in_graph(function) is function
    assert not fw.compiler.is_compiling()


def test_tracing_is_compiling() -> None:
    seen = []

    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        seen.append(fw.compiler.is_compiling())
        return x + 1

    step(fw.ones(2))
    assert isinstance(seen[-1], bool)
