"""Heat maps for keypoints: soft-argmax, unravelled maxima, OKS, flips, bfloat16 and half casts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
K = 3


class Hourglass(nn.Module):
    def __init__(self, n, f):
        super().__init__()
        self.up1, self.pool1, self.low1 = (
            nn.Conv2d(f, f, 3, padding=1),
            nn.MaxPool2d(2, 2, return_indices=True),
            nn.Conv2d(f, f, 3, 1, 1),
        )
        self.low2 = Hourglass(n - 1, f) if n > 1 else nn.Conv2d(f, f, 1)
        self.unpool, self.n = nn.MaxUnpool2d(2, 2), n

    def forward(self, x):
        up1 = F.relu(self.up1(x))
        pooled, where = self.pool1(x)
        low = self.low2(F.relu(self.low1(pooled)))
        up2 = F.interpolate(
            low, size=up1.shape[2:], mode="bilinear", align_corners=True
        )
        return up1 + up2 + 0.1 * self.unpool(low, where, output_size=x.size())


def soft_argmax(heat):
    B, K, H, W = heat.shape
    p = F.softmax(heat.reshape(B, K, -1) * 5, -1).view_as(heat)
    ys, xs = (
        torch.arange(H).to(heat),
        torch.arange(W, dtype=heat.dtype, device=heat.device),
    )
    return torch.stack(((p.sum(2) * xs).sum(-1), (p.sum(dim=3) * ys).sum(-1)), -1)


def get_max_preds(heat):
    B, K, H, W = heat.shape
    maxvals, idx = torch.max(heat.view(B, K, -1), 2, keepdim=True)
    preds = idx.repeat(1, 1, 2).float()
    preds[..., 0] = preds[..., 0] % W
    preds[:, :, 1] = torch.floor(preds[:, :, 1] / W)
    preds *= maxvals.gt(0.0).repeat(1, 1, 2).float()
    return preds, maxvals


def train(steps):
    model = seeded(
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), Hourglass(2, 4), nn.Conv2d(4, K, 1)
        )
    ).to(device)
    points = torch.tensor([[[1.0, 2], [5, 6], [3, 4]], [[6, 1], [2, 2], [0, 7]]])
    ys, xs = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    heat = torch.exp(
        -(
            (xs - points[..., 0, None, None]) ** 2
            + (ys - points[..., 1, None, None]) ** 2
        )
        / 2
    )
    images = (
        heat.sum(1, keepdim=True) + 0.1 * torch.from_numpy(normal(2, 1, 8, 8))
    ).to(device)
    heat, points = heat.to(device), points.to(device)
    weight = torch.tensor([[1, 1, 0], [1, 1, 1]]).to(device)
    optimizer, results = torch.optim.Adam(model.parameters(), lr=5e-3), []
    for step in range(steps):
        x, y = (
            (images.flip([3]), heat[:, [1, 0, 2]].flip(-1))
            if step % 3 == 2
            else (images, heat)
        )
        out = model(x)
        per = F.mse_loss(out, y, reduction="none").mean(dim=(-2, -1)) * weight
        hard = per.topk(k=2, dim=1).values.sum() / 2
        coords = soft_argmax(out)
        loss = hard + 0.01 * F.smooth_l1_loss(
            coords[weight > 0],
            (
                points
                if step % 3 != 2
                else points[:, [1, 0, 2]] * torch.tensor([-1.0, 1]).to(device)
                + torch.tensor([7.0, 0], device=device)
            )[weight.bool()],
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        results += [loss.item()]
    preds, maxvals = get_max_preds(out.detach())
    d2 = (preds - points).pow(2).sum(-1)
    oks = torch.exp(-d2 / 8).masked_select(weight == 1).mean()
    half = (
        out.detach().half().float().mean()
        - out.detach().to(torch.bfloat16).to(torch.float32).mean()
    )
    return results + [oks.item(), maxvals.sum().item(), half.item()]
