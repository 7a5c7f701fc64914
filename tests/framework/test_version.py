"""Version of the library, and of PyTorch's interface."""

import pickle

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.torch_version import TorchVersion


def test_version() -> None:
    assert fw.__version__ == fw.version.__version__
    assert fw.__version__.endswith(f"+vkbackend.{vkbackend.__version__}")
    assert fw.version.cuda is fw.version.hip is None


@pytest.mark.torch213
def test_it_is_that_of_pytorch() -> None:
    import torch

    assert fw.__version__.partition("+")[0] == torch.__version__.partition("+")[0]


def test_comparisons() -> None:
    version = TorchVersion("2.13.0+local")
    assert version >= (2, 4)
    assert version > "2.9"
    assert version == "2.13"
    assert version != "2.13.1"
    assert version < "3"
    assert TorchVersion("2.14.0.dev2026") < "2.14"
    assert version <= "2.13.0"
    assert not version == "no version"
    assert pickle.loads(pickle.dumps(version)) == version
    assert hash(version) == hash(str(version))
