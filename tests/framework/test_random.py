"""The default generator at PyTorch's address."""

import copy
import pickle

import vkbackend.framework as fw


def test_fork_rng() -> None:
    fw.random.manual_seed(3)
    expected = fw.rand(2).tolist()
    fw.random.manual_seed(3)
    with fw.random.fork_rng():
        fw.rand(5)
    assert fw.rand(2).tolist() == expected


def test_generators() -> None:
    generator = fw.Generator(device="cpu").manual_seed(7)
    assert fw.Generator("cpu").device == generator.device == fw.device("cpu")
    fw.rand(1, generator=generator)
    others = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    others.append(generator.clone_state())
    expected = fw.randn(2, generator=generator).tolist()
    for each in others:
        assert each.get_offset() == 1
        assert fw.randn(2, generator=each).tolist() == expected
    assert fw.seed() == fw.initial_seed() == fw.default_generator.initial_seed()
