"""Datasets and samplers say what they are."""

import pickle
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.data.representation import Represented

SAMPLES = data.TensorDataset(fw.ones(4, 2), fw.zeros(4))
ORDER = data.SequentialSampler(range(3))

TEXTS: list[tuple[Any, str]] = [
    (SAMPLES, "TensorDataset(shapes (4, 2), (4,))"),
    (
        data.Subset(SAMPLES, [0, 2]),
        f"Subset(dataset={SAMPLES!r}, indices=<list of 2>)",
    ),
    (data.ConcatDataset([SAMPLES]), "ConcatDataset(datasets=<list of 1>)"),
    (data.StackDataset(a=SAMPLES), "StackDataset(datasets=<dict of 1>)"),
    (data.ChainDataset([]), "ChainDataset(datasets=<list of 0>)"),
    (ORDER, "SequentialSampler(data_source=<range of 3>)"),
    (
        data.RandomSampler(range(3), num_samples=2),
        "RandomSampler(data_source=<range of 3>, replacement=False, num_samples=2)",
    ),
    (data.SubsetRandomSampler([1]), "SubsetRandomSampler(indices=<list of 1>)"),
    (
        data.WeightedRandomSampler([0.5, 0.5], 3),
        "WeightedRandomSampler(weights=<Tensor of shape (2,)>, num_samples=3,"
        " replacement=True)",
    ),
    (
        data.BatchSampler(ORDER, 2, False),
        f"BatchSampler(sampler={ORDER!r}, batch_size=2, drop_last=False)",
    ),
    (
        data.DistributedSampler(range(3), 2, 1),
        "DistributedSampler(dataset=<range of 3>, num_replicas=2, rank=1,"
        " shuffle=True, seed=0, drop_last=False)",
    ),
    (fw.Generator(7), "Generator(seed=7, device='cpu')"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_text(value: Any, text: str) -> None:
    assert repr(value) == text
    assert repr(pickle.loads(pickle.dumps(value))) == text


def test_classes_of_programs_have_a_text() -> None:
    """Also where their constructor does not call the one above."""

    class Lines(data.Dataset[str]):
        def __len__(self) -> int:
            raise AssertionError("a text asks for no length")

    class Own(data.RandomSampler):
        def __init__(self) -> None:
            pass

    assert isinstance(Lines(), Represented)
    assert (repr(Lines()), repr(Own())) == ("Lines()", "Own()")
    assert repr(data.Subset(Lines(), (1,))) == (
        "Subset(dataset=Lines(), indices=<tuple of 1>)"
    )
