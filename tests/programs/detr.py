"""DETR-like: nn.Transformer parts, positional sine, Hungarian matching by scipy-free search, aux losses, GIoU, nested tensors."""

import copy
import itertools
import math
from typing import Optional, List
import torch
import torch.nn.functional as F
from torch import nn, Tensor

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class NestedTensor(object):
    def __init__(self, tensors, mask: Optional[Tensor]):
        self.tensors, self.mask = tensors, mask

    def to(self, device):
        cast_tensor = self.tensors.to(device)
        mask = self.mask
        if mask is not None:
            assert mask is not None
            cast_mask = mask.to(device)
        else:
            cast_mask = None
        return NestedTensor(cast_tensor, cast_mask)

    def decompose(self):
        return self.tensors, self.mask


def nested_tensor_from_tensor_list(tensor_list: List[Tensor]):
    max_size = [max(s) for s in zip(*[list(img.shape) for img in tensor_list])]
    batch_shape = [len(tensor_list)] + max_size
    b, c, h, w = batch_shape
    dtype, dev = tensor_list[0].dtype, tensor_list[0].device
    tensor = torch.zeros(batch_shape, dtype=dtype, device=dev)
    mask = torch.ones((b, h, w), dtype=torch.bool, device=dev)
    for img, pad_img, m in zip(tensor_list, tensor, mask):
        pad_img[: img.shape[0], : img.shape[1], : img.shape[2]].copy_(img)
        m[: img.shape[1], : img.shape[2]] = False
    return NestedTensor(tensor, mask)


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats=4, temperature=10000, normalize=True, scale=None):
        super().__init__()
        self.num_pos_feats, self.temperature, self.normalize = (
            num_pos_feats,
            temperature,
            normalize,
        )
        self.scale = 2 * math.pi if scale is None else scale

    def forward(self, x, mask):
        not_mask = ~mask
        y_embed = not_mask.cumsum(1, dtype=torch.float32)
        x_embed = not_mask.cumsum(2, dtype=torch.float32)
        if self.normalize:
            eps = 1e-6
            y_embed = y_embed / (y_embed[:, -1:, :] + eps) * self.scale
            x_embed = x_embed / (x_embed[:, :, -1:] + eps) * self.scale
        dim_t = torch.arange(self.num_pos_feats, dtype=torch.float32, device=x.device)
        dim_t = self.temperature ** (
            2 * torch.div(dim_t, 2, rounding_mode="floor") / self.num_pos_feats
        )
        pos_x = x_embed[:, :, :, None] / dim_t
        pos_y = y_embed[:, :, :, None] / dim_t
        pos_x = torch.stack(
            (pos_x[:, :, :, 0::2].sin(), pos_x[:, :, :, 1::2].cos()), dim=4
        ).flatten(3)
        pos_y = torch.stack(
            (pos_y[:, :, :, 0::2].sin(), pos_y[:, :, :, 1::2].cos()), dim=4
        ).flatten(3)
        return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


def box_cxcywh_to_xyxy(x):
    x_c, y_c, w, h = x.unbind(-1)
    b = [(x_c - 0.5 * w), (y_c - 0.5 * h), (x_c + 0.5 * w), (y_c + 0.5 * h)]
    return torch.stack(b, dim=-1)


def box_area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def generalized_box_iou(boxes1, boxes2):
    assert (boxes1[:, 2:] >= boxes1[:, :2]).all()
    assert (boxes2[:, 2:] >= boxes2[:, :2]).all()
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = box_area(boxes1)[:, None] + box_area(boxes2) - inter
    iou = inter / union
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    area = wh[:, :, 0] * wh[:, :, 1]
    return iou - (area - union) / area


class Decoder(nn.Module):
    def __init__(self, layer, n, norm):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for i in range(n)])
        self.norm = norm

    def forward(self, tgt, memory, memory_key_padding_mask, pos, query_pos):
        out = []
        for l in self.layers:
            q = k = tgt + query_pos
            tgt = l.norm1(tgt + l.self_attn(q, k, value=tgt)[0])
            t2, w = l.cross(
                query=tgt + query_pos,
                key=memory + pos,
                value=memory,
                key_padding_mask=memory_key_padding_mask,
            )
            tgt = l.norm2(tgt + t2)
            tgt = l.norm3(tgt + l.lin2(l.act(l.lin1(tgt))))
            out.append(self.norm(tgt))
        return torch.stack(out), w


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.self_attn, self.cross = (
            nn.MultiheadAttention(d, heads, dropout=0.0),
            nn.MultiheadAttention(d, heads, dropout=0.0),
        )
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d) for _ in range(3))
        self.lin1, self.lin2, self.act = nn.Linear(d, 16), nn.Linear(16, d), F.relu


class DETR(nn.Module):
    def __init__(self, num_classes=3, num_queries=5, d=8):
        super().__init__()
        self.backbone = nn.Conv2d(3, d, 4, stride=4)
        self.query_embed = nn.Embedding(num_queries, d)
        self.input_proj = nn.Conv2d(d, d, kernel_size=1)
        self.pe = PositionEmbeddingSine(d // 2)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0),
            1,
            enable_nested_tensor=False,
        )
        self.decoder = Decoder(Layer(d, 2), 2, nn.LayerNorm(d))
        self.class_embed, self.bbox_embed = (
            nn.Linear(d, num_classes + 1),
            nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4)),
        )
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, samples: NestedTensor):
        src, mask = samples.decompose()
        feat = self.backbone(src)
        mask = F.interpolate(mask[None].float(), size=feat.shape[-2:]).to(torch.bool)[0]
        pos = self.pe(feat, mask).flatten(2).permute(2, 0, 1)
        src = self.input_proj(feat).flatten(2).permute(2, 0, 1)
        mask = mask.flatten(1)
        mem = self.encoder(src + pos, src_key_padding_mask=mask)
        q = self.query_embed.weight.unsqueeze(1).repeat(1, src.shape[1], 1)
        hs, w = self.decoder(torch.zeros_like(q), mem, mask, pos, q)
        hs = hs.transpose(1, 2)
        cls, box = self.class_embed(hs), self.bbox_embed(hs).sigmoid()
        out = {"pred_logits": cls[-1], "pred_boxes": box[-1]}
        out["aux_outputs"] = [
            {"pred_logits": a, "pred_boxes": b} for a, b in zip(cls[:-1], box[:-1])
        ]
        return out


@torch.no_grad()
def match(outputs, targets):
    bs, nq = outputs["pred_logits"].shape[:2]
    prob = outputs["pred_logits"].flatten(0, 1).softmax(-1)
    out_bbox = outputs["pred_boxes"].flatten(0, 1)
    tgt_ids, tgt_bbox = (
        torch.cat([v["labels"] for v in targets]),
        torch.cat([v["boxes"] for v in targets]),
    )
    C = (
        5 * torch.cdist(out_bbox, tgt_bbox, p=1)
        - prob[:, tgt_ids]
        - 2
        * generalized_box_iou(
            box_cxcywh_to_xyxy(out_bbox), box_cxcywh_to_xyxy(tgt_bbox)
        )
    )
    C = C.view(bs, nq, -1).cpu()
    sizes = [len(v["boxes"]) for v in targets]
    indices = []
    for i, c in enumerate(C.split(sizes, -1)):
        c = c[i].numpy()
        best = min(
            itertools.permutations(range(nq), c.shape[1]),
            key=lambda p: sum(c[r, k] for k, r in enumerate(p)),
        )
        indices.append((best, range(c.shape[1])))
    return [
        (torch.as_tensor(i, dtype=torch.int64), torch.as_tensor(j, dtype=torch.int64))
        for i, j in indices
    ]


class Criterion(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.num_classes = num_classes
        empty_weight = torch.ones(num_classes + 1)
        empty_weight[-1] = 0.1
        self.register_buffer("empty_weight", empty_weight)

    def forward(self, outputs, targets):
        losses = {}
        num = sum(len(t["labels"]) for t in targets)
        num = torch.as_tensor(
            [num], dtype=torch.float, device=next(iter(outputs.values())).device
        )
        num = torch.clamp(num, min=1).item()
        for at, o in enumerate([outputs] + outputs["aux_outputs"]):
            ind = match(o, targets)
            bi = torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(ind)])
            si = torch.cat([src for (src, _) in ind])
            idx = (bi, si)
            tco = torch.cat([t["labels"][J] for t, (_, J) in zip(targets, ind)])
            tc = torch.full(
                o["pred_logits"].shape[:2],
                self.num_classes,
                dtype=torch.int64,
                device=o["pred_logits"].device,
            )
            tc[idx] = tco
            losses[f"ce{at}"] = F.cross_entropy(
                o["pred_logits"].transpose(1, 2), tc, self.empty_weight
            )
            sb, tb = (
                o["pred_boxes"][idx],
                torch.cat([t["boxes"][i] for t, (_, i) in zip(targets, ind)], dim=0),
            )
            losses[f"bbox{at}"] = F.l1_loss(sb, tb, reduction="none").sum() / num
            losses[f"giou{at}"] = (
                1
                - torch.diag(
                    generalized_box_iou(box_cxcywh_to_xyxy(sb), box_cxcywh_to_xyxy(tb))
                )
            ).sum() / num
            card = (o["pred_logits"].argmax(-1) != o["pred_logits"].shape[-1] - 1).sum(
                1
            )
            losses[f"card{at}"] = F.l1_loss(
                card.float(),
                torch.as_tensor(
                    [len(v["labels"]) for v in targets], device=card.device
                ).float(),
            )
        return losses


def train(steps):
    model, crit = seeded(DETR()).to(device), Criterion().to(device)
    imgs = [
        torch.from_numpy(normal(3, 16, 12, seed=4)),
        torch.from_numpy(normal(3, 12, 16, seed=5)),
    ]
    samples = nested_tensor_from_tensor_list(imgs).to(device)
    targets = [
        {
            "labels": torch.tensor([0, 2]),
            "boxes": torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.7, 0.6, 0.3, 0.2]]),
        },
        {"labels": torch.tensor([1]), "boxes": torch.tensor([[0.5, 0.5, 0.6, 0.4]])},
    ]
    targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
    param_dicts = [
        {
            "params": [
                p
                for n, p in model.named_parameters()
                if "backbone" not in n and p.requires_grad
            ]
        },
        {
            "params": [
                p
                for n, p in model.named_parameters()
                if "backbone" in n and p.requires_grad
            ],
            "lr": 1e-4,
        },
    ]
    opt = torch.optim.AdamW(param_dicts, lr=1e-3, weight_decay=1e-4)
    weight = {"ce": 1, "bbox": 5, "giou": 2}
    res = []
    for _ in range(steps):
        ld = crit(model(samples), targets)
        losses = sum(ld[k] * weight[k[:-1]] for k in ld.keys() if k[:-1] in weight)
        opt.zero_grad()
        losses.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        res += [losses.item(), ld["card0"].item()]
    return res
