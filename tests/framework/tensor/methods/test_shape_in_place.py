"""Methods that change the tensor's own shape, beside PyTorch."""

import pytest

from tests.torch_calls import check

CALLS = """\
T.ones((1, 3)).squeeze_()
m.clone().unsqueeze_(0)
m.clone().transpose_(0, 1)
m.clone().swapaxes_(0, 1)
m.clone().swapdims_(0, 1)
m.clone().t_()
!m.clone().as_strided_((2, 2), (1, 2))
!m.clone().resize_(2, 2)
!m.clone().resize_as_(v3)
!T.empty(0).set_(m)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_call(call: str) -> None:
    check(call)
