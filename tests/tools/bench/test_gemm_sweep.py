"""Sizes: what counts as a step, and the table."""

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.tools.bench import gemm_sweep


def test_steps_are_falls_of_the_rate() -> None:
    times = {size: float(size**3) for size in (128, 192, 256)} | {255: 1.0}
    times[256] *= 2
    assert gemm_sweep.steps(times) == [(2.0, 192, 256), (1.0, 128, 192)]


def test_odd_sizes_stand_beside_the_next_round_one() -> None:
    times = {127: 3.0, 128: 2.0, 255: 5.0, 256: 4.0, 257: 1.0}
    assert gemm_sweep.beside_round(times) == [(1.5, 127, 128), (1.25, 255, 256)]


def test_sizes_are_round_and_odd() -> None:
    assert all(size % 64 == 0 for size in gemm_sweep.ROUND)
    assert all(size % 64 in (1, 63) for size in gemm_sweep.ODD)
    assert max(gemm_sweep.ODD) < max(gemm_sweep.ROUND)


def test_a_chain_neither_grows_nor_fades() -> None:
    chain = gemm_sweep.chain_of(
        64, "float32", fw.device("cpu"), np.random.default_rng(0)
    )
    (last,) = chain.run()
    assert chain.length == 40
    assert 0.1 < last.square().mean().item() * 64 < 10


@pytest.mark.long
def test_the_table(
    device: vkbackend.Device,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gemm_sweep, "_WARM_SECONDS", 0.0)
    options = ["--dtype", "float32", "--sizes", "127", "128", "192", "--rounds", "1"]
    assert gemm_sweep.main([*options, "--device", device.name]) == 0
    _, times, steps, odd = capsys.readouterr().out.splitlines()
    assert [word.split(":")[0] for word in times.split()[2:]] == ["127", "128", "192"]
    assert steps.startswith("float32 steps: ")
    assert steps.endswith("(128 to 192)")
    assert odd.endswith("(127 beside 128)")


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert gemm_sweep.main(["--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
