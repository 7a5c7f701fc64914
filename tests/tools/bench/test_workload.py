"""The register of workloads, and how inputs are made."""

import numpy as np
import pytest

from vkbackend.tools.bench import cli
from vkbackend.tools.bench.workload import SIZES, WORKLOADS, Bench, Workload

# Of the figures measured with PyTorch on an H200, those that have a workload.
BASELINE = """
    copy_64M_f32 add_64M_f32 gelu_64M_f32 eager_relu(x*y+o)_64M
    compiled_relu(x*y+o)_64M sum_64M matmul_1024_float32 matmul_1024_float16
    matmul_1024_bfloat16 matmul_4096_float32 matmul_4096_float16 matmul_4096_bfloat16
    matmul_8192_float32 matmul_8192_float16 matmul_8192_bfloat16
    gemv_1x4096x16384_f16 softmax_8192x8192 layernorm_fwd_16384x4096
    layernorm_fwdbwd_16384x4096 embedding_fwdbwd xent_fwdbwd_8192x50257
    sdpa_fwd_f16 sdpa_fwd_causal_f16 sdpa_fwd_f32_4x16x2048x64
    conv_fwd_64x64x56_64k3_float32 conv_fwd_64x256x14_256k3_float32
    conv_fwd_64x3x224_64k7_float32 dispatch_add_tiny_wall mlp_step_b128_eager_wall
    mlp_step_b128_cudagraph_wall tinytransformer_eager
"""


def test_names_are_those_of_the_baseline() -> None:
    titles = {w.title("full") for w in WORKLOADS if "full" in w.sizes}
    assert set(BASELINE.split()) - titles == set()


@pytest.mark.parametrize("size", SIZES)
def test_names_are_distinct(size: str) -> None:
    titles = [w.title(size) for w in WORKLOADS if size in w.sizes]
    assert len(titles) == len(set(titles))


def test_title_shortens_powers_of_two() -> None:
    made = Workload("sum_{}x{}", "float32", {"full": (64 << 20, 50257)}, lambda: None)
    assert made.title("full") == "sum_64Mx50257"


def test_both_get_the_same_numbers(bench: Bench) -> None:
    mine, theirs = bench.uniform(3, 5, low=2, high=4)
    np.testing.assert_array_equal(mine.numpy(), theirs)
    assert theirs.min() >= 2
    assert theirs.max() < 4
    mine, theirs = bench.whole(7, below=5)
    np.testing.assert_array_equal(mine.numpy(), theirs)


def test_choose_takes_what_the_peer_can(bench: Bench) -> None:
    assert bench.choose(lambda torch: []) is None
    assert bench.choose(numpy=lambda: [1]) is not None


@pytest.mark.device
def test_listing_needs_no_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list", "--size", "full", "--only", "softmax_81"]) == 0
    names = capsys.readouterr().out.split()
    assert names[0] == "softmax_8192x8192"
