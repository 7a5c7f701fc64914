"""Numbers before tensors, the order of older programs, beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check

CALLS = """\
T.add(m, 2, m2)
T.sub(m, 0.5, m2)
T.addcmul(m, 2, m2, p)
T.addcdiv(m, 0.5, m2, p)
m.add(2, m2)
m.sub(2, m2)
m.clone().add_(2, m2)
m.clone().sub_(2, m2)
m.addcmul(2, m2, p)
m.clone().addcdiv_(2, m2, p)
T.addmm(2, sq, m, m2.T)
T.addmm(2, sq, 3, m, m2.T)
sq.addmm(2, m, m2.T)
sq.addmm(2, 3, m, m2.T)
sq.clone().addmm_(2, 3, m, m2.T)
T.addmv(2, v3, 3, m, v4)
v3.clone().addmv_(2, m, v4)
T.addr(2, m, 3, v3, v4)
T.baddbmm(2, c, 3, T.stack([sq, sq]), c)
T.addbmm(2, m, T.stack([sq, sq]), c)
T.sub(m, 2, 3)
m.add(2, 3)
""".splitlines()

REFUSED = ("T.add(m, m2, 2)", "T.addmm(2, sq, m, 3, m2.T)", "T.addcmul(2, m, m, m)")


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.filterwarnings("ignore:This overload:UserWarning")
@pytest.mark.parametrize("call", CALLS)
def test_numbers_first(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", REFUSED)
def test_other_orders(call: str) -> None:
    m = fw.ones(3, 4)
    names = {"T": fw, "m": m, "m2": m, "sq": fw.ones(3, 3)}
    with pytest.raises(TypeError, match="positional"):
        eval(call, names)


def test_warning() -> None:
    with pytest.warns(UserWarning, match="addmm: .* write beta=2, alpha=3") as warned:
        fw.addmm(2, fw.ones(2, 2), 3, fw.ones(2, 2), fw.ones(2, 2))  # type: ignore[arg-type, misc, call-arg]  # an older order
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_on_a_device(device: vkbackend.Device) -> None:
    x = fw.ones(3, device=fw.device(device.name))
    assert fw.add(x, 2, x).tolist() == [3.0] * 3  # type: ignore[call-arg, arg-type]  # an older order
