"""A masked autoencoder: random masking by argsort, patchify by einsum, mask tokens, MixUp and CutMix."""

from functools import partial

import numpy as np
import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def get_2d_sincos_pos_embed(embed_dim, grid_size, cls_token=False):
    grid = np.stack(
        np.meshgrid(
            np.arange(grid_size, dtype=np.float32),
            np.arange(grid_size, dtype=np.float32),
        ),
        axis=0,
    )
    out = []
    for axis in grid:
        omega = 1.0 / 10000 ** (
            np.arange(embed_dim // 4, dtype=np.float64) / (embed_dim / 4.0)
        )
        o = np.einsum("m,d->md", axis.reshape(-1), omega)
        out.append(np.concatenate([np.sin(o), np.cos(o)], axis=1))
    pos = np.concatenate(out, axis=1)
    return np.concatenate([np.zeros([1, embed_dim]), pos], axis=0) if cls_token else pos


class DropPath(nn.Module):
    def __init__(self, drop_prob=None):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        random_tensor = keep + torch.rand(
            (x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype, device=x.device
        )
        random_tensor.floor_()
        return x.div(keep) * random_tensor


class Block(nn.Module):
    def __init__(self, dim, heads, norm_layer=nn.LayerNorm):
        super().__init__()
        self.norm1, self.norm2, self.heads = norm_layer(dim), norm_layer(dim), heads
        self.qkv, self.proj, self.drop_path = (
            nn.Linear(dim, dim * 3, bias=True),
            nn.Linear(dim, dim),
            DropPath(0.0),
        )
        self.mlp = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )
        self.ls = nn.Parameter(0.5 * torch.ones(dim))

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (
            self.qkv(self.norm1(x))
            .reshape(B, N, 3, self.heads, C // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        x = x + self.drop_path(self.ls * self.proj(y.transpose(1, 2).reshape(B, N, C)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class MAE(nn.Module):
    def __init__(self, img=8, patch=2, dim=8, dec=8):
        super().__init__()
        norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.p, n = patch, (img // patch) ** 2
        self.patch_embed = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, n + 1, dim), requires_grad=False)
        self.blocks = nn.ModuleList([Block(dim, 2, norm_layer) for _ in range(2)])
        self.decoder_embed, self.mask_token = (
            nn.Linear(dim, dec),
            nn.Parameter(torch.zeros(1, 1, dec)),
        )
        self.decoder_block, self.norm, self.pred = (
            Block(dec, 2),
            norm_layer(dec),
            nn.Linear(dec, patch**2 * 3),
        )

    def patchify(self, imgs):
        p = self.p
        assert imgs.shape[2] == imgs.shape[3]
        assert imgs.shape[2] % p == 0
        h = w = imgs.shape[2] // p
        x = imgs.reshape(shape=(imgs.shape[0], 3, h, p, w, p))
        x = torch.einsum("nchpwq->nhwpqc", x)
        return x.reshape(shape=(imgs.shape[0], h * w, p**2 * 3))

    def random_masking(self, x, mask_ratio, noise):
        N, L, D = x.shape
        len_keep = int(L * (1 - mask_ratio))
        ids_shuffle = torch.argsort(noise, dim=1)
        ids_restore = torch.argsort(ids_shuffle, dim=1)
        ids_keep = ids_shuffle[:, :len_keep]
        x_masked = torch.gather(x, dim=1, index=ids_keep.unsqueeze(-1).repeat(1, 1, D))
        mask = torch.ones([N, L], device=x.device)
        mask[:, :len_keep] = 0
        return x_masked, torch.gather(mask, dim=1, index=ids_restore), ids_restore

    def forward(self, imgs, noise):
        x = self.patch_embed(imgs).flatten(2).transpose(1, 2)
        x = x + self.pos_embed[:, 1:, :]
        x, mask, ids_restore = self.random_masking(x, 0.75, noise)
        cls_tokens = (self.cls_token + self.pos_embed[:, :1, :]).expand(
            x.shape[0], -1, -1
        )
        x = torch.cat((cls_tokens, x), dim=1)
        for blk in self.blocks:
            x = blk(x)
        x = self.decoder_embed(x)
        mask_tokens = self.mask_token.repeat(
            x.shape[0], ids_restore.shape[1] + 1 - x.shape[1], 1
        )
        x_ = torch.cat([x[:, 1:, :], mask_tokens], dim=1)
        x_ = torch.gather(
            x_, dim=1, index=ids_restore.unsqueeze(-1).repeat(1, 1, x.shape[2])
        )
        x = torch.cat([x[:, :1, :], x_], dim=1)
        x = self.pred(self.norm(self.decoder_block(x + self.pos_embed)))[:, 1:, :]
        target = self.patchify(imgs)
        mean, var = target.mean(dim=-1, keepdim=True), target.var(dim=-1, keepdim=True)
        target = (target - mean) / (var + 1.0e-6) ** 0.5
        loss = ((x - target) ** 2).mean(dim=-1)
        return (loss * mask).sum() / mask.sum(), x, mask


def rand_bbox(size, lam, rng):
    W, H = size[2], size[3]
    cut = int(W * np.sqrt(1.0 - lam))
    cx, cy = rng.randint(W), rng.randint(H)
    return [
        int(np.clip(v, 0, W))
        for v in (cx - cut // 2, cy - cut // 2, cx + cut // 2, cy + cut // 2)
    ]


def train(steps):
    model = seeded(MAE())
    pos_embed = get_2d_sincos_pos_embed(model.pos_embed.shape[-1], 4, cls_token=True)
    model.pos_embed.data.copy_(torch.from_numpy(pos_embed).float().unsqueeze(0))
    w = model.patch_embed.weight.data
    torch.nn.init.xavier_uniform_(w.view([w.shape[0], -1]))
    seeded(model.patch_embed, 5)
    model.to(device)
    param_groups = {}
    for n, p in model.named_parameters():
        if not p.requires_grad:
            continue
        layer_id = (
            int(n.split(".")[1]) + 1
            if n.startswith("blocks")
            else 0
            if "embed" in n
            else 3
        )
        key = f"layer_{layer_id}_{'no_decay' if p.ndim == 1 else 'decay'}"
        group = param_groups.setdefault(
            key,
            {
                "lr_scale": 0.75 ** (3 - layer_id),
                "weight_decay": 0.0 if p.ndim == 1 else 0.05,
                "params": [],
            },
        )
        group["params"].append(p)
    optimizer = torch.optim.AdamW(
        list(param_groups.values()), lr=1e-3, betas=(0.9, 0.95)
    )
    rng, results = np.random.RandomState(0), []
    images = torch.from_numpy(normal(4, 3, 8, 8)).to(device)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(1.0, step / 5) * group["lr_scale"]
        batch, lam = images.clone(), rng.beta(1.0, 1.0)
        rand_index = torch.from_numpy(rng.permutation(4)).to(device)
        if step % 2:
            x1, y1, x2, y2 = rand_bbox(batch.size(), lam, rng)
            batch[:, :, x1:x2, y1:y2] = batch[rand_index, :, x1:x2, y1:y2]
        else:
            batch.mul_(lam).add_(images.flip(0), alpha=1 - lam)
        noise = torch.from_numpy(rng.rand(4, 16)).float().to(device)
        loss, _, mask = model(batch, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results += [loss.item(), mask.sum().item()]
    return results
