"""YOLO-like detection loss with IoU matching, NMS written by hand."""

import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
S, B, C = 4, 2, 3


def box_iou(box1, box2, eps=1e-7):
    (a1, a2), (b1, b2) = box1.unsqueeze(1).chunk(2, 2), box2.unsqueeze(0).chunk(2, 2)
    inter = (torch.min(a2, b2) - torch.max(a1, b1)).clamp(0).prod(2)
    return inter / ((a2 - a1).prod(2) + (b2 - b1).prod(2) - inter + eps)


def ciou(p, t, eps=1e-7):
    px1, py1, px2, py2 = (
        p[..., 0] - p[..., 2] / 2,
        p[..., 1] - p[..., 3] / 2,
        p[..., 0] + p[..., 2] / 2,
        p[..., 1] + p[..., 3] / 2,
    )
    tx1, ty1, tx2, ty2 = (
        t[..., 0] - t[..., 2] / 2,
        t[..., 1] - t[..., 3] / 2,
        t[..., 0] + t[..., 2] / 2,
        t[..., 1] + t[..., 3] / 2,
    )
    inter = (torch.minimum(px2, tx2) - torch.maximum(px1, tx1)).clamp_(0) * (
        torch.minimum(py2, ty2) - torch.maximum(py1, ty1)
    ).clamp_(0)
    union = p[..., 2] * p[..., 3] + t[..., 2] * t[..., 3] - inter + eps
    iou = inter / union
    cw = torch.maximum(px2, tx2) - torch.minimum(px1, tx1)
    ch = torch.maximum(py2, ty2) - torch.minimum(py1, ty1)
    c2 = cw**2 + ch**2 + eps
    rho2 = (p[..., 0] - t[..., 0]) ** 2 + (p[..., 1] - t[..., 1]) ** 2
    v = (4 / torch.pi**2) * torch.pow(
        torch.atan(t[..., 2] / (t[..., 3] + eps))
        - torch.atan(p[..., 2] / (p[..., 3] + eps)),
        2,
    )
    with torch.no_grad():
        alpha = v / (v - iou + (1 + eps))
    return iou - (rho2 / c2 + v * alpha)


def nms(boxes, scores, thr):
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        i = order[0]
        keep.append(i.item())
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]]).squeeze(0)
        order = order[1:][iou <= thr]
    return torch.tensor(keep, dtype=torch.long)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.SiLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.SiLU(),
            nn.MaxPool2d(5, 1, 2),
        )
        self.detect = nn.Conv2d(16, B * (5 + C), 1)
        self.register_buffer(
            "anchors", torch.tensor([[0.3, 0.3], [0.5, 0.4]]).view(B, 1, 1, 2)
        )
        yv, xv = torch.meshgrid(torch.arange(S), torch.arange(S), indexing="ij")
        self.register_buffer(
            "grid",
            torch.stack((xv, yv), 2).view(1, 1, S, S, 2).float(),
            persistent=False,
        )

    def forward(self, x):
        p = (
            self.detect(self.backbone(x))
            .view(-1, B, 5 + C, S, S)
            .permute(0, 1, 3, 4, 2)
            .contiguous()
        )
        y = p.sigmoid()
        xy = (y[..., 0:2] * 2.0 - 0.5 + self.grid) / S
        wh = (y[..., 2:4] * 2) ** 2 * self.anchors
        return torch.cat((xy, wh), -1), p[..., 4], p[..., 5:]


def train(steps):
    x = torch.from_numpy(normal(3, 3, 16, 16)).to(device)
    targets = torch.tensor(
        [
            [0, 1, 0.3, 0.4, 0.3, 0.2],
            [0, 0, 0.7, 0.6, 0.4, 0.5],
            [1, 2, 0.5, 0.5, 0.2, 0.3],
            [2, 1, 0.2, 0.8, 0.3, 0.3],
        ],
        device=device,
    )
    model = seeded(Detector()).to(device)
    bce_cls, bce_obj = (
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5], device=device)),
        nn.BCEWithLogitsLoss(reduction="none"),
    )
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        boxes, obj, cls = model(x)
        tobj = torch.zeros_like(obj)
        b, c = targets[:, :2].long().T
        gxy, gwh = targets[:, 2:4], targets[:, 4:6]
        gi, gj = (gxy * S).long().clamp_(0, S - 1).unbind(1)
        r = gwh[None] / model.anchors.view(B, 1, 2)
        j = torch.max(r, 1 / r).max(2)[0] < 4
        a = torch.arange(B, device=device).view(B, 1).repeat(1, len(targets))[j]
        sel = torch.arange(len(targets), device=device).repeat(B, 1)[j]
        pb = boxes[b[sel], a, gj[sel], gi[sel]]
        iou = ciou(pb, targets[sel, 2:6])
        lbox = (1.0 - iou).mean()
        tobj[b[sel], a, gj[sel], gi[sel]] = iou.detach().clamp(0).type(tobj.dtype)
        pc = cls[b[sel], a, gj[sel], gi[sel]]
        tcls = torch.full_like(pc, 0.05)
        tcls[range(len(sel)), c[sel]] = 0.95
        lobj = bce_obj(obj, tobj)
        lobj = (
            lobj
            * torch.where(tobj > 0, torch.ones_like(lobj), 0.5 * torch.ones_like(lobj))
        ).mean()
        loss = 0.05 * lbox + lobj + 0.5 * bce_cls(pc, tcls)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    with torch.no_grad():
        boxes, obj, cls = model(x[:1])
        conf, label = (
            (cls.sigmoid() * obj.sigmoid().unsqueeze(-1)).reshape(-1, C).max(1)
        )
        bx = boxes.reshape(-1, 4)
        bx = torch.cat((bx[:, :2] - bx[:, 2:] / 2, bx[:, :2] + bx[:, 2:] / 2), 1)
        mask = conf > conf.median()
        keep = nms(bx[mask], conf[mask], 0.3).to(device)
        print(keep.tolist(), label[mask][keep].tolist())
    return losses + bx[mask][keep].sum(1).tolist()
