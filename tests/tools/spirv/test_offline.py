"""Kernels compiled for AMD GPUs by their own compiler, without such a GPU."""

import pytest

from vkbackend.errors import ArgumentError
from vkbackend.tools.spirv import offline
from vkbackend.tools.spirv.cli import kernels, main
from vkbackend.tools.spirv.offline import compile_kernels, device_info
from vkbackend.tools.spirv.target import Target, find

pytestmark = pytest.mark.usefixtures("radv")


def test_properties_of_a_family() -> None:
    info = device_info("navi31")
    assert "NAVI31" in info.name
    assert (info.min_subgroup_size, info.max_subgroup_size) == (32, 64)
    assert {row.a for row in info.cooperative_matrix} >= {"float16", "int8"}
    assert device_info("vega10").cooperative_matrix == ()


def test_an_unknown_family() -> None:
    with pytest.raises(ArgumentError, match=r"'navi99' is no GPU family .* navi31"):
        device_info("navi99")


def test_the_order_and_the_problems() -> None:
    matrix = find("matmul/gemm_coopmat", dtype="float16")
    targets = [find("arrays/binary"), matrix, find("copy/transpose")]
    first, second, third = compile_kernels("vega10", targets)
    assert (first.name, first.problem) == ("arrays/binary", "")
    assert first.statistic("VGPRs") > 0
    assert first.occupancy > 1
    assert first.executable is not None
    assert first.executable.representations == ()
    assert second.executable is None
    assert second.refused
    assert "cooperative_matrices" in second.problem
    assert third.statistic("LDS size") > 0


def test_a_compiler_that_crashes_is_blamed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = offline._WORKER
    crash = (
        "import os, vkbackend.tools.spirv.offline_worker as worker;"
        "real = worker.executables;"
        "worker.executables = lambda logical, words, constants:"
        " os.abort() if constants else real(logical, words, constants);"
    )
    start = worker.index("from vkbackend")
    monkeypatch.setattr(offline, "_WORKER", worker[:start] + crash + worker[start:])
    target = find("arrays/binary")
    bad = Target("bad", target.words, {"OPERATION": 1})
    found = compile_kernels("navi31", [target, bad, target])
    assert [bool(row.problem) for row in found] == [False, True, False]
    assert found[1].problem.endswith("crashed: status -6")


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--target", "navi21", "arrays/dot", "--isa"]) == 0
    said = capsys.readouterr().out
    assert "RDNA 2" in said
    assert "s_endpgm" in said
    assert main(["arrays/dot", "--isa"]) == 2


@pytest.mark.wide
def test_the_library() -> None:
    found = compile_kernels("navi31", [find(name) for name in kernels()])
    assert [row.name for row in found if row.problem and not row.refused] == []
    assert len([row for row in found if not row.problem]) > 60
