import vkbackend.framework as fw
from vkbackend.framework.autograd.batched import rules_for


def test_there_are_rules_where_a_tensor_is_batched() -> None:
    seen = []

    def function(x: fw.Tensor) -> fw.Tensor:
        seen.append(rules_for(1, x) is not None)
        return x

    fw.func.vmap(function)(fw.ones((2, 2)))
    assert seen == [True]
    assert rules_for(1, fw.ones(2)) is None
