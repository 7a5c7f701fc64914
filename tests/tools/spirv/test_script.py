import sys
from pathlib import Path

import pytest

from vkbackend import ShaderError
from vkbackend.device import Device
from vkbackend.tools.spirv.report import report
from vkbackend.tools.spirv.script import collect

PROGRAM = """
import sys
import numpy as np
import vkbackend.framework as fw
g = fw.devices()[0] if False else fw.device({device!r})
x = fw.tensor(np.ones((4, 12), np.float32)).to_gpu(g)
y = (x * 2 + 1).relu()
(y @ y.mT).numpy()
y.cumsum(0).numpy()
(y * int(sys.argv[1])).sum().numpy()
sys.exit(3)
"""


@pytest.mark.device
def test_everything_that_a_program_used(tmp_path: Path, device: Device) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(device=device.name))
    before = sys.argv, Device.pipeline
    targets = collect(str(path), ["5"])
    assert (sys.argv, Device.pipeline) == before
    names = [target.name.split()[0] for target in targets]
    assert any(name.startswith("fused/") for name in names)
    assert any(name.startswith("matmul/") for name in names)
    assert len(set(names)) > 2
    for target in targets:
        found = report(target.name, target.words, target.constants)
        assert found["workgroup"]["invocations"] > 1
        assert target.texts


def test_an_error_is_the_programs_own(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("raise ZeroDivisionError('mine')")
    before = Device.pipeline
    with pytest.raises(ZeroDivisionError, match="mine"):
        collect(str(path))
    assert Device.pipeline is before
    assert ShaderError
