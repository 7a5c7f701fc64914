"""Contrastive language and image: a learnt temperature, a ViT with conv patches, pooling at eos."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class LayerNorm(nn.LayerNorm):
    def forward(self, x: torch.Tensor):
        orig_type = x.dtype
        ret = super().forward(x.type(torch.float32))
        return ret.type(orig_type)


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, d_model, n_head, attn_mask=None):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head)
        self.ln_1, self.ln_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, d_model * 2),
            QuickGELU(),
            nn.Linear(d_model * 2, d_model),
        )
        self.attn_mask = attn_mask

    def attention(self, x):
        self.attn_mask = (
            self.attn_mask.to(dtype=x.dtype, device=x.device)
            if self.attn_mask is not None
            else None
        )
        return self.attn(x, x, x, need_weights=False, attn_mask=self.attn_mask)[0]

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class CLIP(nn.Module):
    def __init__(self, width=8, vocab=20, context=6):
        super().__init__()
        self.context_length = context
        self.conv1 = nn.Conv2d(3, width, kernel_size=4, stride=4, bias=False)
        scale = width**-0.5
        self.class_embedding = nn.Parameter(scale * torch.randn(width))
        self.positional_image = nn.Parameter(
            scale * torch.randn((8 // 4) ** 2 + 1, width)
        )
        self.visual = nn.Sequential(
            *[ResidualAttentionBlock(width, 2) for _ in range(2)]
        )
        self.proj = nn.Parameter(scale * torch.randn(width, 6))
        self.token_embedding = nn.Embedding(vocab, width)
        self.positional_embedding = nn.Parameter(torch.empty(context, width))
        self.text = nn.Sequential(
            *[
                ResidualAttentionBlock(width, 2, self.build_attention_mask())
                for _ in range(2)
            ]
        )
        self.ln_final = LayerNorm(width)
        self.text_projection = nn.Parameter(torch.empty(width, 6))
        self.logit_scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))

    def build_attention_mask(self):
        mask = torch.empty(self.context_length, self.context_length)
        mask.fill_(float("-inf"))
        mask.triu_(1)
        return mask

    @property
    def dtype(self):
        return self.conv1.weight.dtype

    def encode_image(self, x):
        x = self.conv1(x.type(self.dtype))
        x = x.reshape(x.shape[0], x.shape[1], -1)
        x = x.permute(0, 2, 1)
        x = torch.cat(
            [
                self.class_embedding.to(x.dtype)
                + torch.zeros(
                    x.shape[0], 1, x.shape[-1], dtype=x.dtype, device=x.device
                ),
                x,
            ],
            dim=1,
        )
        x = x + self.positional_image.to(x.dtype)
        x = self.visual(x.permute(1, 0, 2)).permute(1, 0, 2)
        return x[:, 0, :] @ self.proj

    def encode_text(self, text):
        x = self.token_embedding(text).type(
            self.dtype
        ) + self.positional_embedding.type(self.dtype)
        x = self.text(x.permute(1, 0, 2)).permute(1, 0, 2)
        x = self.ln_final(x).type(self.dtype)
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.text_projection

    def forward(self, image, text):
        image_features, text_features = self.encode_image(image), self.encode_text(text)
        image_features = image_features / image_features.norm(dim=1, keepdim=True)
        text_features = text_features / text_features.norm(dim=1, keepdim=True)
        logits_per_image = self.logit_scale.exp() * image_features @ text_features.t()
        return logits_per_image, logits_per_image.t()


def train(steps):
    model = seeded(CLIP())
    model.logit_scale.data.fill_(np.log(1 / 0.07))
    model = model.to(device)
    images = torch.from_numpy(normal(6, 3, 8, 8)).to(device)
    text = torch.from_numpy(integers(19, 6, 6)).int().to(device)
    text[torch.arange(6), torch.tensor([2, 5, 3, 1, 4, 5])] = 19

    def exclude(n, p):
        return p.ndim < 2 or "bn" in n or "ln" in n or "bias" in n or "logit_scale" in n

    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {
                "params": [p for n, p in named if exclude(n, p) and p.requires_grad],
                "weight_decay": 0.0,
            },
            {"params": [p for n, p in named if not exclude(n, p)], "weight_decay": 0.2},
        ],
        lr=1e-3,
        betas=(0.9, 0.98),
        eps=1e-4,
    )
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps - 5)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [5])
    results = []
    for _ in range(steps):
        logits_per_image, logits_per_text = model(images, text)
        labels = torch.arange(len(logits_per_image), device=device)
        loss = (
            F.cross_entropy(logits_per_image, labels)
            + F.cross_entropy(logits_per_text, labels)
        ) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, np.log(12))
        results += [
            loss.item(),
            model.logit_scale.exp().item(),
            optimizer.param_groups[1]["lr"],
        ]
    with torch.no_grad():
        values, indices = (100.0 * logits_per_image).softmax(dim=-1)[0].topk(3)
    return results + [v.item() for v in values]
