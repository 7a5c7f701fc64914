"""Transfer: frozen layers, state_dict surgery, groups, hooks, deep copies of the best."""

import copy
import os
import tempfile
from collections import OrderedDict

import torch
import torch.nn as nn
from torch.optim import lr_scheduler

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                [
                    ("conv0", nn.Conv2d(3, 8, 3, padding=1, bias=False)),
                    ("norm0", nn.BatchNorm2d(8)),
                    ("relu0", nn.ReLU(inplace=True)),
                    ("pool0", nn.AvgPool2d(2)),
                    (
                        "conv1",
                        nn.Conv2d(
                            8, 12, 3, padding="same", padding_mode="reflect", bias=False
                        ),
                    ),
                    ("norm1", nn.BatchNorm2d(12)),
                ]
            )
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(12, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = torch.relu_(self.features(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def set_parameter_requires_grad(model, feature_extracting):
    if feature_extracting:
        for param in model.parameters():
            param.requires_grad = False


def train_model(model, batches, criterion, optimizer, scheduler, num_epochs):
    best_model_wts, best_acc, history = copy.deepcopy(model.state_dict()), -1.0, []
    for _ in range(num_epochs):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            running_loss, running_corrects = 0.0, 0
            for inputs, labels in batches[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
            if phase == "train":
                scheduler.step()
            epoch_acc = running_corrects.double() / 12
            history += [running_loss / 12, epoch_acc.item()]
            if phase == "val" and epoch_acc > best_acc:
                best_acc, best_model_wts = epoch_acc, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_model_wts)
    return history


def train(steps):
    pretrained = seeded(Backbone(10), 4)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pth")
        torch.save(
            {
                "epoch": 3,
                "state_dict": {
                    f"module.{k}": v for k, v in pretrained.state_dict().items()
                },
            },
            path,
        )
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    state = OrderedDict(
        (k[len("module.") :], v) for k, v in checkpoint["state_dict"].items()
    )
    model = Backbone(3)
    own = model.state_dict()
    state = {k: v for k, v in state.items() if k in own and v.shape == own[k].shape}
    missing = model.load_state_dict(state, strict=False)
    assert sorted(missing.missing_keys) == ["fc.bias", "fc.weight"]
    assert not missing.unexpected_keys
    own.update(state)
    set_parameter_requires_grad(model, True)
    num_ftrs = model.fc.in_features
    model.fc = seeded(nn.Linear(num_ftrs, 3))
    model = model.to(device)
    params_to_update = [p for n, p in model.named_parameters() if p.requires_grad]
    assert len(params_to_update) == 2
    images, labels = (
        torch.from_numpy(normal(12, 3, 8, 8)),
        torch.from_numpy(integers(3, 12)),
    )
    batches = {x: list(zip(images.split(5), labels.split(5))) for x in ["train", "val"]}
    optimizer = torch.optim.SGD(params_to_update, lr=0.05, momentum=0.9)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    results = train_model(
        model,
        batches,
        nn.CrossEntropyLoss(label_smoothing=0.1),
        optimizer,
        scheduler,
        2,
    )
    for name, child in model.features.named_children():
        if name in ("conv1", "norm1"):
            for param in child.parameters():
                param.requires_grad_(True)
    head = list(map(id, model.fc.parameters()))
    base = filter(lambda p: id(p) not in head and p.requires_grad, model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": base},
            {"params": model.fc.parameters(), "lr": 1e-2, "weight_decay": 0},
        ],
        lr=1e-3,
    )
    activations = {}

    def get_activation(name):
        def hook(model, input, output):
            activations[name] = output.detach()

        return hook

    handle = model.features.norm1.register_forward_hook(get_activation("norm1"))
    scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    results += train_model(
        model,
        batches,
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).to(device)),
        optimizer,
        scheduler,
        4,
    )
    handle.remove()
    results.append(activations["norm1"].abs().mean().item())
    assert model.features.conv0.weight.grad is None
    total = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return (
        results
        + [float(total)]
        + [v.float().sum().item() for v in model.state_dict().values()]
    )
