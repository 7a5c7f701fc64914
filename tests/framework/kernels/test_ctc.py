"""How many dispatches CTC takes."""

import dataclasses

from vkbackend import DeviceInfo
from vkbackend.driver.target import LOOP_LIMIT
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.ctc import ctc_dispatches


def test_long_sequences_take_several_on_software(discrete: DeviceInfo) -> None:
    shape = (3, 20000, 300)
    emissions = StridedSpec(shape, float32, Layout.contiguous(shape))
    (step,) = ctc_dispatches(discrete, emissions, True)
    assert (step.grid, step.constants["REVERSE"]) == ((3, 1, 1), 1)
    software = dataclasses.replace(discrete, kind="software")
    steps = ctc_dispatches(software, emissions, False)
    # Of 128 invocations each takes three states, and the loop over them ends once.
    most = LOOP_LIMIT // 4
    ends = [step.push["last"] for step in steps]
    assert ends == [most, 2 * most, 20000]
    assert [step.push["first"] for step in steps] == [0, *ends[:-1]]
