"""Shape, dtype and device of the gradients that nodes take."""

import vkbackend.framework as fw


def test_nodes_say_what_gradients_they_take() -> None:
    x = fw.ones(3, 4, requires_grad=True)
    weight = fw.ones(4, 2, dtype=fw.float32, requires_grad=True)
    total = (x @ weight).relu().double().sum()
    (found,) = total.grad_fn._input_metadata
    assert (found.shape, found.dtype) == ((), fw.float64)
    assert found.device == x.device
    assert not found.is_nested_tensor
    node, chain = total.grad_fn, []
    while node.next_functions:
        node = node.next_functions[0][0]
        (like,) = node._input_metadata
        chain.append((like.shape, like.dtype, like.device))
    floats = fw.float64, fw.float32
    assert [kind for _, kind, _ in chain] == [floats[0], *[floats[1]] * 3]
    assert [shape for shape, _, _ in chain] == [(3, 2)] * 3 + [(3, 4)]
    assert {str(device) for _, _, device in chain} == {"cpu"}
    first, last = fw.ones(4, requires_grad=True).split(2)
    assert first.grad_fn._input_metadata[first.output_nr].shape == (2,)
    assert last.grad_fn._input_metadata[last.output_nr].shape == (2,)
