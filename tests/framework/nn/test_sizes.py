"""Numbers become one for each dimension."""

import vkbackend.framework as fw
from vkbackend.framework.nn.modules import utils


def test_tuples() -> None:
    assert utils._pair(3) == (3, 3)
    assert utils._pair((1, 2)) == (1, 2)
    assert utils._ntuple(5)(1) == (1,) * 5
    assert utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)


def test_prefix() -> None:
    state = {"module.weight": fw.ones(1), "bias": fw.ones(1)}
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert sorted(state) == ["bias", "weight"]
