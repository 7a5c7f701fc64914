import vkbackend.framework as fw


def test_a_variable_is_a_tensor() -> None:
    x = fw.ones(2)
    y = fw.autograd.Variable(x, requires_grad=True)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3, 3]
    assert not x.requires_grad
    assert isinstance(x, fw.autograd.Variable)
    assert not isinstance(3, fw.autograd.Variable)
