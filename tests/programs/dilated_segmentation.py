"""DeepLab-like: dilated convolutions, ASPP, dice + focal loss, IoU by bincount, poly LR."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class ASPPConv(nn.Sequential):
    def __init__(self, i, o, dilation):
        super(ASPPConv, self).__init__(
            nn.Conv2d(i, o, 3, padding=dilation, dilation=dilation, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(),
        )


class ASPPPooling(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(i, o, 1, bias=False),
            nn.GroupNorm(2, o),
            nn.ReLU(),
        )

    def forward(self, x):
        size = x.shape[-2:]
        for mod in self:
            x = mod(x)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class DeepLab(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3, stride=2, padding=1, padding_mode="reflect"),
            nn.ReLU(inplace=True),
        )
        self.convs = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
                )
            ]
            + [ASPPConv(8, 8, r) for r in (2, 3)]
            + [ASPPPooling(8, 8)]
        )
        self.project = nn.Sequential(nn.Conv2d(32, 8, 1), nn.Dropout2d(0.0))
        self.low = nn.Conv2d(3, 4, 1)
        self.head = nn.Conv2d(12, classes, 1)

    def forward(self, x):
        input_shape = x.shape[-2:]
        f = self.stem(x)
        res = [conv(f) for conv in self.convs]
        f = self.project(torch.cat(res, dim=1))
        f = F.interpolate(f, scale_factor=2, mode="bilinear", align_corners=True)
        low = self.low(F.max_pool2d(x, 2, ceil_mode=True))
        out = self.head(torch.cat((f, low), 1))
        return {
            "out": F.interpolate(
                out, size=input_shape, mode="bicubic", align_corners=False
            )
        }


def dice_loss(pred, target, smooth=1.0):
    pred = F.softmax(pred, dim=1)
    onehot = F.one_hot(target.clamp(min=0), pred.shape[1]).permute(0, 3, 1, 2).float()
    valid = (target != 255).unsqueeze(1)
    inter = (pred * onehot * valid).sum(dim=(0, 2, 3))
    union = (pred * valid).sum((0, 2, 3)) + (onehot * valid).sum((0, 2, 3))
    return 1 - ((2.0 * inter + smooth) / (union + smooth)).mean()


class FocalLoss(nn.Module):
    def __init__(self, gamma=2, ignore_index=255):
        super().__init__()
        self.gamma = gamma
        self.ce = nn.CrossEntropyLoss(
            ignore_index=ignore_index,
            reduction="none",
            weight=torch.tensor([1.0, 2.0, 0.5]),
        )

    def forward(self, out, target):
        logpt = self.ce(out, target)
        pt = torch.exp(-logpt)
        return ((1 - pt) ** self.gamma * logpt).mean()


def fast_hist(label, pred, n):
    k = (label >= 0) & (label < n)
    return torch.bincount(
        n * label[k].to(torch.int64) + pred[k], minlength=n**2
    ).reshape(n, n)


def train(steps):
    x = torch.from_numpy(normal(4, 3, 16, 16)).to(device)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 1).long()
    t = y.clone()
    t[:, :2, :2] = 255
    model = seeded(DeepLab()).to(device)
    focal = FocalLoss().to(device)
    params = [
        {
            "params": [p for n, p in model.named_parameters() if n.startswith("stem")],
            "lr": 0.01,
        },
        {
            "params": [
                p for n, p in model.named_parameters() if not n.startswith("stem")
            ],
            "lr": 0.05,
        },
    ]
    opt = torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=steps, power=0.9)
    losses = []
    for _ in range(steps):
        out = model(x)["out"]
        ignore = t.clone()
        ignore[ignore == 255] = 0
        loss = focal(out, t) + 0.5 * dice_loss(out, ignore)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        pred = model(x)["out"].argmax(dim=1)
        hist = fast_hist(t.flatten(), pred.flatten(), 3).cpu().numpy()
        iou = np.diag(hist) / (hist.sum(1) + hist.sum(0) - np.diag(hist) + 1e-9)
        print(hist)
    return losses + iou.tolist()
