import vkbackend.framework as fw


def test_nodes_name_themselves_and_their_inputs() -> None:
    x = fw.ones(2, requires_grad=True)
    y = x * 2 + 1
    assert y.grad_fn.name() == "AddBackward0"
    assert repr(y.grad_fn).startswith("<AddBackward0 at 0x")
    ((product, output),) = y.grad_fn.next_functions
    assert (product.name(), output) == ("MulBackward0", 0)
    ((leaf, _),) = product.next_functions
    assert (leaf.name(), leaf.variable) == ("torch::autograd::AccumulateGrad", x)
    assert leaf == product.next_functions[0][0]
    assert leaf.next_functions == ()
    assert ((x * fw.ones(2)).grad_fn.next_functions)[1] == (None, 0)
    assert x.grad_fn is None
