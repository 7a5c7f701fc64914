"""Language models of the benchmarks compute what PyTorch's do, with its weights."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench import language_models
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.workload import WORKLOADS, Bench, Workload

pytest.importorskip("torch")

SMALL = [
    workload
    for workload in WORKLOADS
    if workload.make.__module__ == language_models.__name__
    and "small" in workload.sizes
]


@pytest.mark.wide
@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.title("small"))
def test_agrees_with_pytorch(workload: Workload, place: Any) -> None:
    found = measure(workload, "small", Peer("torch"), place, 1)
    assert found.seconds > 0
    assert found.error is None or found.error <= found.case.tolerance


def test_a_full_cache_is_begun_anew(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_models, "_ROOM", 4)
    config = language_models._config("llama-8b", (1, 64, 64, 2, 1, 32, 64))
    bench = Bench(Peer("torch"), place)
    decoding = language_models._Decoding(bench, config, "float32", 1, 1, 3)
    step = decoding.ours()
    first = [step()[0].numpy() for _ in range(4)]
    again = [step()[0].numpy() for _ in range(4)]
    for one, other in zip(first, again, strict=True):
        assert (one == other).all()


def test_a_quantized_model_counts_the_bytes_it_reads(place: Any) -> None:
    config = language_models._config("llama-8b", (1, 256, 256, 2, 1, 128, 512))
    model = language_models._model(config, "q4_0", place)
    # 18 bytes for each 32 weights: q and o, k and v, three of the MLP, and the head.
    weights = 256 * (2 * 256 + 2 * 128 + 3 * 256 + 512)
    norms = 3 * 256 * 2
    counted = language_models._bytes_of_products(model)
    assert weights * 18 // 32 + norms <= counted < weights * 18 // 32 + norms + 4096
    assert counted < sum(each.nbytes for each in fw.nn.Module.buffers(model)) + norms
