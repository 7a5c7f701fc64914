"""Values are written as code that means the same."""

import vkbackend.framework as fw
from vkbackend.framework import fx


def test_values_are_written_as_code() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("to", (x, fw.float16), {"copy": True})
    z = graph.call_function(fw.full, ((2,), float("inf")), {"dtype": fw.int64})
    graph.output({"y": y, "z": [z, None, ..., "text", 1j]})
    code = graph.python_code().src
    assert "x.to(torch.float16, copy = True)" in code
    assert "torch.full((2,), inf, dtype = torch.int64)" in code
    assert "return {'y': to, 'z': [full, None, Ellipsis, 'text', 1j]}" in code
