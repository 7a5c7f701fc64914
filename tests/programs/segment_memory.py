"""Transformer-XL: memories of former segments, relative positions by a shift, tied adaptive softmax."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class PositionalEmbedding(nn.Module):
    def __init__(self, demb):
        super().__init__()
        self.demb = demb
        inv_freq = 1 / (10000 ** (torch.arange(0.0, demb, 2.0) / demb))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, pos_seq, bsz=None):
        sinusoid = torch.ger(pos_seq, self.inv_freq)
        pos_emb = torch.cat([sinusoid.sin(), sinusoid.cos()], dim=-1)
        if bsz is None:
            return pos_emb[:, None, :]
        return pos_emb[:, None, :].expand(-1, bsz, -1)


class RelPartialAttention(nn.Module):
    def __init__(self, n_head, d_model, d_head):
        super().__init__()
        self.n_head, self.d_head, self.scale = n_head, d_head, 1 / (d_head**0.5)
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)

    @staticmethod
    def _rel_shift(x):
        zero_pad = torch.zeros(
            (x.size(0), 1, *x.size()[2:]), device=x.device, dtype=x.dtype
        )
        x_padded = torch.cat([zero_pad, x], dim=1)
        x_padded = x_padded.view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return x_padded[1:].view_as(x)

    def forward(self, w, r, r_w_bias, r_r_bias, attn_mask, mems):
        qlen, rlen, bsz = w.size(0), r.size(0), w.size(1)
        cat = w if mems is None or mems.dim() <= 1 else torch.cat([mems, w], 0)
        q, k, v = torch.chunk(self.qkv_net(self.layer_norm(cat)), 3, dim=-1)
        q = q[-qlen:]
        klen = k.size(0)
        q = q.contiguous().view(qlen, bsz, self.n_head, self.d_head)
        k = k.contiguous().view(klen, bsz, self.n_head, self.d_head)
        v = v.contiguous().view(klen, bsz, self.n_head, self.d_head)
        r_k = self.r_net(r).view(rlen, self.n_head, self.d_head)
        AC = torch.einsum("ibnd,jbnd->ijbn", (q + r_w_bias, k))
        BD = self._rel_shift(torch.einsum("ibnd,jnd->ijbn", (q + r_r_bias, r_k)))
        attn_score = AC.add(BD).mul_(self.scale)
        if attn_mask is not None and attn_mask.any().item():
            attn_score = (
                attn_score.float()
                .masked_fill(attn_mask[:, :, :, None].bool(), -float("inf"))
                .type_as(attn_score)
            )
        attn_prob = F.softmax(attn_score, dim=1)
        attn_vec = torch.einsum("ijbn,jbnd->ibnd", (attn_prob, v))
        attn_vec = attn_vec.contiguous().view(attn_vec.size(0), attn_vec.size(1), -1)
        return w + self.o_net(attn_vec)


class MemTransformerLM(nn.Module):
    def __init__(self, n_token, n_layer, n_head, d_model, d_head, mem_len):
        super().__init__()
        self.word_emb = nn.Embedding(n_token, d_model)
        self.pos_emb = PositionalEmbedding(d_model)
        self.r_w_bias = nn.Parameter(torch.Tensor(n_head, d_head))
        self.r_r_bias = nn.Parameter(torch.Tensor(n_head, d_head))
        self.layers = nn.ModuleList(
            RelPartialAttention(n_head, d_model, d_head) for _ in range(n_layer)
        )
        self.crit = nn.AdaptiveLogSoftmaxWithLoss(
            d_model, n_token, [5, 11], div_value=2.0
        )
        self.mem_len, self.n_layer = mem_len, n_layer

    def init_mems(self):
        param = next(self.parameters())
        return [
            torch.empty(0, dtype=param.dtype, device=param.device)
            for _ in range(self.n_layer + 1)
        ]

    def _update_mems(self, hids, mems, mlen, qlen):
        with torch.no_grad():
            end_idx = mlen + max(0, qlen)
            beg_idx = max(0, end_idx - self.mem_len)
            return [
                torch.cat([mem, hid], dim=0)[beg_idx:end_idx].detach()
                for mem, hid in zip(mems, hids)
            ]

    def forward(self, data, target, *mems):
        mems = mems or self.init_mems()
        qlen, bsz = data.size()
        mlen = mems[0].size(0) if mems is not None else 0
        klen = mlen + qlen
        core_out = self.word_emb(data)
        all_ones = core_out.new_ones(qlen, klen)
        mask_len = klen - self.mem_len
        mask_shift_len = qlen - mask_len if mask_len > 0 else qlen
        dec_attn_mask = (
            torch.triu(all_ones, 1 + mlen) + torch.tril(all_ones, -mask_shift_len)
        ).byte()[:, :, None]
        pos_seq = torch.arange(
            klen - 1, -1, -1.0, device=data.device, dtype=core_out.dtype
        )
        pos_seq.clamp_(max=9)
        pos_emb = self.pos_emb(pos_seq)
        hids = [core_out]
        for i, layer in enumerate(self.layers):
            core_out = checkpoint(
                layer,
                core_out,
                pos_emb.squeeze(1),
                self.r_w_bias,
                self.r_r_bias,
                dec_attn_mask,
                mems[i],
                use_reentrant=False,
            )
            hids.append(core_out)
        new_mems = self._update_mems(hids, mems, mlen, qlen)
        pred_hid = core_out[-target.size(0) :]
        output, loss = self.crit(
            pred_hid.reshape(-1, pred_hid.size(-1)), target.reshape(-1)
        )
        return [loss, output, *new_mems]


def train(steps):
    model = seeded(MemTransformerLM(17, 2, 2, 12, 6, 8)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, steps, eta_min=1e-4
    )
    text = torch.from_numpy(integers(17, steps * 6 + 1, 3)).to(device)
    mems, results = (), []
    for step in range(steps):
        data, target = text[step * 6 : step * 6 + 6], text[step * 6 + 1 : step * 6 + 7]
        model.zero_grad(set_to_none=step % 2 == 0)
        loss, output, *mems = model(data, target, *mems)
        loss.float().mean().type_as(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        scheduler.step()
        results += [loss.item(), output.exp().mean().item()]
    model.eval()
    with torch.no_grad():
        hidden = model.word_emb(text[:2])
        results.append(
            model.crit.log_prob(hidden.flatten(0, 1)).logsumexp(-1).abs().max().item()
        )
        results.append(float(model.crit.predict(hidden.flatten(0, 1)).sum()))
    return results
