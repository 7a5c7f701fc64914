"""Transfer by freezing, distillation with hints by hooks, multi-head outputs, class weights, confusion matrix."""

import argparse
import copy
import os
import tempfile
from collections import OrderedDict, Counter
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.utils.data import (
    Dataset,
    DataLoader,
)

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class FeatureExtractor(nn.Module):
    def __init__(self, model, layers):
        super().__init__()
        self.model = model
        self.layers = layers
        self._features = {layer: torch.empty(0) for layer in layers}
        self.handles = []
        for layer_id in layers:
            layer = dict([*self.model.named_modules()])[layer_id]
            self.handles.append(
                layer.register_forward_hook(self.save_outputs_hook(layer_id))
            )

    def save_outputs_hook(self, layer_id):
        def fn(_, __, output):
            self._features[layer_id] = output

        return fn

    def forward(self, x):
        out = self.model(x)
        return out, self._features


class GradCAM:
    def __init__(self, model, target):
        self.gradients, self.activations = [], []
        target.register_forward_hook(
            lambda m, i, o: self.activations.append(o.detach())
        )
        target.register_forward_hook(self.save_gradient)
        self.model = model

    def save_gradient(self, module, input, output):
        if not hasattr(output, "requires_grad") or not output.requires_grad:
            return

        def _store_grad(grad):
            self.gradients = [grad.cpu().detach()] + self.gradients

        output.register_hook(_store_grad)

    def __call__(self, x, category):
        self.gradients, self.activations = [], []
        output = self.model(x)
        self.model.zero_grad()
        loss = sum(output[i, c] for i, c in enumerate(category))
        loss.backward(retain_graph=True)
        w = self.gradients[-1].mean(dim=(2, 3), keepdim=True)
        cam = (w * self.activations[-1].cpu()).sum(1)
        cam = np.maximum(cam.numpy(), 0)
        return cam / (1e-7 + cam.max(axis=(1, 2), keepdims=True))


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(
            inplanes, planes, kernel_size=3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, width=8, num_classes=6):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(BasicBlock, width, 1)
        self.layer2 = self._make_layer(BasicBlock, width * 2, 1, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width * 2, num_classes)

    def _make_layer(self, block, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes),
            )
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        return nn.Sequential(*layers)

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))

    def forward(self, x):
        return self._forward_impl(x)


def set_parameter_requires_grad(model, feature_extracting):
    if feature_extracting:
        for param in model.parameters():
            param.requires_grad = False


def loss_fn_kd(outputs, labels, teacher_outputs, alpha=0.9, T=4):
    return nn.KLDivLoss(reduction="batchmean")(
        F.log_softmax(outputs / T, dim=1), F.softmax(teacher_outputs / T, dim=1)
    ) * (alpha * T * T) + F.cross_entropy(outputs, labels) * (1.0 - alpha)


class ImageSet(Dataset):
    def __init__(self, n, train=True):
        self.x = (normal(n, 8, 8, 3) * 40 + 128).clip(0, 255).astype(np.uint8)
        self.y = integers(6, n).tolist()
        self.train = train
        self.mean, self.std = (
            torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1),
            torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1),
        )

    def __getitem__(self, index):
        img = torch.from_numpy(self.x[index].transpose((2, 0, 1)).copy()).contiguous()
        img = img.to(dtype=torch.get_default_dtype()).div(255)
        img = img.sub_(self.mean).div_(self.std)
        if self.train and index % 2:
            img = img.flip(-1)
        return (
            img,
            self.y[index],
            index,
            {"name": f"img{index}", "size": np.float64(index)},
        )

    def __len__(self):
        return len(self.x)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res


def train(steps):
    data = ImageSet(24)
    counts = Counter(data.y)
    weights = torch.FloatTensor([1.0 / max(1, counts[i]) for i in range(6)]).to(device)
    loader = DataLoader(
        data,
        batch_size=8,
        shuffle=False,
        num_workers=2,
        persistent_workers=True,
        prefetch_factor=2,
        worker_init_fn=lambda i: np.random.seed(i),
    )
    teacher = seeded(ResNet(), 1).to(device)
    teacher.fc = nn.Linear(teacher.fc.in_features, 6).to(device)
    seeded(teacher.fc, 4)
    student = seeded(ResNet(4, 6), 2).to(device)
    set_parameter_requires_grad(teacher, True)
    for p in teacher.fc.parameters():
        p.requires_grad = True
    params_to_update = [
        p for n, p in teacher.named_parameters() if p.requires_grad is True
    ]
    assert len(params_to_update) == 2
    opt_t = torch.optim.SGD(params_to_update, lr=0.05, momentum=0.9, nesterov=True)
    fe_t, fe_s = (
        FeatureExtractor(teacher, ["layer1", "layer2.0.relu"]),
        FeatureExtractor(student, layers=["layer1", "layer2.0.relu"]),
    )
    hint = seeded(nn.Conv2d(4, 8, 1, bias=False), 3).to(device)
    opt_s = torch.optim.Adam(
        [{"params": student.parameters()}, {"params": hint.parameters(), "lr": 1e-2}],
        lr=1e-3,
        amsgrad=True,
    )
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt_s, max_lr=[2e-3, 2e-2], total_steps=steps, pct_start=0.3
    )
    results, best_acc, best = [], 0.0, copy.deepcopy(student.state_dict())
    confusion = torch.zeros(6, 6, dtype=torch.int64)
    while len(results) < steps * 3:
        teacher.eval()
        teacher.fc.train()
        for img, y, index, meta in loader:
            img, y = Variable(img.to(device)), Variable(y.to(device))
            assert (
                meta["name"][0] == f"img{index[0].item()}"
                and meta["size"].dtype == torch.float64
            )
            t_out, t_feat = fe_t(img)
            loss_t = F.cross_entropy(t_out, y, weight=weights)
            opt_t.zero_grad()
            loss_t.backward()
            opt_t.step()
            s_out, s_feat = fe_s(img)
            loss = loss_fn_kd(s_out, y, t_out.detach()) + 0.1 * F.mse_loss(
                hint(s_feat["layer1"]), t_feat["layer1"].detach()
            )
            at = lambda f: F.normalize(f.pow(2).mean(1).view(f.size(0), -1))
            loss += (
                (at(s_feat["layer2.0.relu"]) - at(t_feat["layer2.0.relu"].detach()))
                .pow(2)
                .mean()
            )
            opt_s.zero_grad()
            loss.backward()
            opt_s.step()
            if len(results) < steps * 3:
                sched.step() if sched.last_epoch < steps - 1 else None
            a1, a5 = accuracy(s_out, y, (1, 5))
            results += [loss_t.item(), loss.data.item(), float(a5)]
            for t, p in zip(y.view(-1).cpu(), s_out.argmax(1).view(-1).cpu()):
                confusion[t.long(), p.long()] += 1
        acc = (confusion.diag().sum() / confusion.sum()).item()
        if acc > best_acc:
            best_acc = acc
            best = copy.deepcopy(student.state_dict())
    student.load_state_dict(best)
    for p in student.parameters():
        p.requires_grad_(True)
    student.eval()
    cam = GradCAM(student, student.layer2[-1])(img, y)
    with tempfile.TemporaryDirectory() as d:
        name = os.path.join(d, "model_best.pth.tar")
        torch.save(
            {
                "epoch": 3,
                "arch": "resnet",
                "state_dict": student.state_dict(),
                "best_acc1": a1,
                "np_acc": np.mean([1.0, 2.0]),
                "opt": argparse.Namespace(lr=0.1, device=torch.device("cpu")),
                "optimizer": opt_s.state_dict(),
                "classes": np.arange(3),
            },
            name,
        )
        ck = torch.load(
            name, map_location=lambda storage, loc: storage, weights_only=False
        )
        student.load_state_dict(
            OrderedDict(
                (k.replace("module.", ""), v) for k, v in ck["state_dict"].items()
            )
        )
        results += [
            float(ck["best_acc1"]),
            ck["np_acc"],
            ck["opt"].lr,
            ck["classes"].sum(),
        ]
        fe_t.handles[0].remove()
        fe_s.handles[0].remove()
    return (
        results[: steps * 3] + [float(cam.sum()), best_acc] + confusion.sum(0).tolist()
    )
