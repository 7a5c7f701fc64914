"""ResNet beside transformers, and with the names of torchvision."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import torch
from tests.framework.models.vision import check_images, pixels
from vkbackend.framework.base.errors import FileFormatError

SETTINGS = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]}
IMAGES = pixels(2, 3, 37, 32)
CLASSES = "AutoModelForImageClassification"


def test_classes(tmp_path: Path, place: Any) -> None:
    ours = check_images(tmp_path, place, "ResNet", CLASSES, IMAGES, **SETTINGS)
    assert type(ours) is fw.models.ResNetClassifier


def test_features_of_basic_blocks(tmp_path: Path, place: Any) -> None:
    settings = {**SETTINGS, "layer_type": "basic", "downsample_in_first_stage": True}
    ours = check_images(tmp_path, place, "ResNet", "AutoModel", IMAGES, **settings)
    assert type(ours) is fw.models.ResNet


def test_half_precision(tmp_path: Path) -> None:
    whole = check_images(tmp_path, "cpu", "ResNet", CLASSES, IMAGES, **SETTINGS)
    half = fw.models.load(tmp_path, dtype=fw.bfloat16)
    counts = [each for name, each in half.named_buffers() if name.endswith("tracked")]
    assert {each.dtype for each in counts} == {fw.int64}
    found = half(fw.tensor(IMAGES))
    assert found.dtype is fw.bfloat16
    wanted = whole(fw.tensor(IMAGES)).detach().numpy()
    found = found.detach().to(fw.float32).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0.1, atol=0.1)


class Basic(torch.nn.Module):
    """Block with the names of torchvision."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outer)
        self.conv2 = torch.nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outer)
        self.downsample = None
        if inner != outer or stride != 1:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(inner, outer, 1, stride, bias=False),
                torch.nn.BatchNorm2d(outer),
            )

    def forward(self, x: Any) -> Any:
        start = x if self.downsample is None else self.downsample(x)
        x = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(x + start)


class Torchvision(torch.nn.Module):
    """ResNet with the names of torchvision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.layer1 = torch.nn.Sequential(Basic(8, 8, 1))
        self.layer2 = torch.nn.Sequential(Basic(8, 16, 2), Basic(16, 16, 1))
        self.fc = torch.nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


@pytest.mark.parametrize("counted", [True, False])
def test_names_of_torchvision(tmp_path: Path, counted: bool) -> None:
    torch.manual_seed(0)
    theirs = Torchvision()
    with torch.no_grad():
        theirs(torch.from_numpy(IMAGES))
        wanted = theirs.eval()(torch.from_numpy(IMAGES)).numpy()
    state = {
        name: each
        for name, each in theirs.state_dict().items()
        if counted or not name.endswith("num_batches_tracked")
    }
    torch.save(state, tmp_path / "pytorch_model.bin")
    config = {**SETTINGS, "model_type": "resnet", "layer_type": "basic"}
    config["architectures"] = ["ResNetForImageClassification"]
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_labels": 5}))
    found = fw.models.load(tmp_path)(fw.tensor(IMAGES)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depths": [1]}, "`hidden_sizes` are 2 and `depths` 1"),
        ({"depths": [1, 0]}, r"`depths` is \[1, 0\]; it must be a list of sizes"),
        ({"layer_type": "wide"}, "`layer_type` is 'wide'"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        fw.models.ResNet(fw.models.ModelConfig({**SETTINGS, **settings}))
