"""A detection head: anchors, IoU, matching, focal and GIoU loss, box decoding, NMS by hand."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def generate_anchors(base, ratios, scales):
    h_ratios = torch.sqrt(torch.as_tensor(ratios, dtype=torch.float32))
    w_ratios = 1 / h_ratios
    scales = torch.as_tensor(scales, dtype=torch.float32) * base
    ws = (w_ratios[:, None] * scales[None, :]).view(-1)
    hs = (h_ratios[:, None] * scales[None, :]).view(-1)
    return (torch.stack([-ws, -hs, ws, hs], dim=1) / 2).round()


def grid_anchors(size, stride, cell):
    shifts_x = torch.arange(0, size, dtype=torch.int32) * stride
    shift_y, shift_x = torch.meshgrid(shifts_x, shifts_x, indexing="ij")
    shift_x, shift_y = shift_x.reshape(-1), shift_y.reshape(-1)
    shifts = torch.stack((shift_x, shift_y, shift_x, shift_y), dim=1)
    return (shifts.view(-1, 1, 4) + cell.view(1, -1, 4)).reshape(-1, 4)


def box_iou(boxes1, boxes2):
    area1 = (boxes1[:, 2] - boxes1[:, 0]) * (boxes1[:, 3] - boxes1[:, 1])
    area2 = (boxes2[:, 2] - boxes2[:, 0]) * (boxes2[:, 3] - boxes2[:, 1])
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[..., 1]
    return inter / (area1[:, None] + area2 - inter)


def encode(reference, proposals):
    ex_w, ex_h = proposals[:, 2] - proposals[:, 0], proposals[:, 3] - proposals[:, 1]
    gt_w, gt_h = reference[:, 2] - reference[:, 0], reference[:, 3] - reference[:, 1]
    dx = (reference[:, 0] + 0.5 * gt_w - proposals[:, 0] - 0.5 * ex_w) / ex_w
    dy = (reference[:, 1] + 0.5 * gt_h - proposals[:, 1] - 0.5 * ex_h) / ex_h
    return torch.stack((dx, dy, torch.log(gt_w / ex_w), torch.log(gt_h / ex_h)), dim=1)


def decode(rel_codes, boxes):
    boxes = boxes.to(rel_codes.dtype)
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    ctr_x, ctr_y = boxes[:, 0] + 0.5 * widths, boxes[:, 1] + 0.5 * heights
    dx, dy = rel_codes[:, 0::4], rel_codes[:, 1::4]
    dw = torch.clamp(rel_codes[:, 2::4], max=math.log(1000.0 / 16))
    dh = torch.clamp(rel_codes[:, 3::4], max=math.log(1000.0 / 16))
    pred_w, pred_h = torch.exp(dw) * widths[:, None], torch.exp(dh) * heights[:, None]
    cx, cy = (
        dx * widths[:, None] + ctr_x[:, None],
        dy * heights[:, None] + ctr_y[:, None],
    )
    return torch.stack(
        (cx - pred_w / 2, cy - pred_h / 2, cx + pred_w / 2, cy + pred_h / 2), dim=2
    ).flatten(1)


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2):
    p = torch.sigmoid(inputs)
    ce_loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce_loss * ((1 - p_t) ** gamma)
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return loss


def nms(boxes, scores, threshold):
    keep, order = [], scores.argsort(descending=True)
    while order.numel() > 0:
        i = order[0]
        keep.append(i.item())
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]]).squeeze(0)
        order = order[1:][iou <= threshold]
    return torch.as_tensor(keep, dtype=torch.int64, device=boxes.device)


class Head(nn.Module):
    def __init__(self, anchors, classes):
        super().__init__()
        self.classes = classes
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2, 1),
            nn.ReLU(),
        )
        self.cls_logits = nn.Conv2d(8, anchors * classes, 3, padding=1)
        self.bbox = nn.Conv2d(8, anchors * 4, 3, padding=1)

    def forward(self, x):
        x, out = self.conv(x), []
        for layer, k in ((self.cls_logits, self.classes), (self.bbox, 4)):
            y = layer(x)
            N, _, H, W = y.shape
            out.append(y.view(N, -1, k, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, k))
        return out


def train(steps):
    cell = generate_anchors(8, [0.5, 1.0], [1.0, 1.5])
    anchors = grid_anchors(4, 4, cell).to(device)
    torch.manual_seed(0)
    model = seeded(Head(4, 2))
    torch.nn.init.constant_(model.cls_logits.bias, -math.log((1 - 0.01) / 0.01))
    model.to(device)
    images = torch.from_numpy(normal(2, 3, 16, 16)).to(device)
    targets = [
        {
            "boxes": torch.tensor([[1.0, 2, 9, 12], [6, 5, 15, 14]]),
            "labels": torch.tensor([0, 1]),
        },
        {"boxes": torch.tensor([[3.0, 3, 12, 9]]), "labels": torch.tensor([1])},
    ]
    targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    results = []
    for _ in range(steps):
        cls_logits, bbox = model(images)
        losses = {"classification": [], "bbox": [], "giou": []}
        for t, logits, regression in zip(targets, cls_logits, bbox):
            quality = box_iou(t["boxes"], anchors)
            matched_vals, matches = quality.max(dim=0)
            all_matches = matches.clone()
            below, between = (
                matched_vals < 0.3,
                (matched_vals >= 0.3) & (matched_vals < 0.4),
            )
            matches[below] = -1
            matches[between] = -2
            highest, _ = quality.max(dim=1)
            gt_pred = torch.where(quality == highest[:, None])
            matches[gt_pred[1]] = all_matches[gt_pred[1]]
            foreground = matches >= 0
            num = foreground.sum()
            gt_classes = torch.zeros_like(logits)
            gt_classes[foreground, t["labels"][matches[foreground]]] = 1.0
            valid = matches != -2
            losses["classification"].append(
                sigmoid_focal_loss(logits[valid], gt_classes[valid]).sum() / max(1, num)
            )
            fg = torch.where(foreground)[0]
            gt = t["boxes"][matches[fg]]
            losses["bbox"].append(
                F.smooth_l1_loss(
                    regression[fg, :],
                    encode(gt, anchors[fg]),
                    beta=0.5,
                    reduction="sum",
                )
                / max(1, num.item())
            )
            iou = torch.diagonal(box_iou(decode(regression[fg], anchors[fg]), gt))
            losses["giou"].append((1 - iou).mean())
        losses = {k: sum(v) / len(v) for k, v in losses.items()}
        loss = sum(each for each in losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results += [v.item() for v in losses.values()]
    model.eval()
    with torch.no_grad():
        cls_logits, bbox = model(images)
        scores, labels = cls_logits[0].sigmoid().max(-1)
        top, idx = scores.topk(min(20, scores.numel()))
        boxes = decode(bbox[0][idx], anchors[idx])
        boxes[..., 0::2].clamp_(min=0, max=16)
        boxes[..., 1::2].clamp_(0, 16)
        keep = nms(boxes, top, 0.5)
        results += [float(len(keep)), boxes[keep].sum().item(), top[keep].sum().item()]
    return results
