"""Generation as transformers writes it: outputs as ordered classes, caches reordered, beams, penalties, nucleus."""

import math
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Optional, Tuple
import torch
from torch import nn

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class ModelOutput(OrderedDict):
    def __post_init__(self):
        for f in fields(self):
            v = getattr(self, f.name)
            if v is not None:
                self[f.name] = v

    def __getitem__(self, k):
        return dict(self.items())[k] if isinstance(k, str) else self.to_tuple()[k]

    def __setattr__(self, n, v):
        if n in self.keys() and v is not None:
            super().__setitem__(n, v)
        super().__setattr__(n, v)

    def __setitem__(self, k, v):
        super().__setitem__(k, v)
        super().__setattr__(k, v)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclass
class Out(ModelOutput):
    loss: Optional[torch.FloatTensor] = None
    logits: torch.FloatTensor = None
    past_key_values: Optional[Tuple[Tuple[torch.FloatTensor]]] = None


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.d = h, d // h
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer(
            "bias",
            torch.tril(torch.ones((32, 32), dtype=torch.bool)).view(1, 1, 32, 32),
            persistent=False,
        )
        self.register_buffer("masked_bias", torch.tensor(-1e4), persistent=False)

    def forward(self, x, past=None, mask=None, use_cache=False):
        q, k, v = (
            t.view(*t.shape[:-1], self.h, self.d).permute(0, 2, 1, 3)
            for t in self.c_attn(x).split(self.h * self.d, dim=2)
        )
        if past is not None:
            k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
        w = torch.matmul(q, k.transpose(-1, -2)) / torch.full(
            [], v.size(-1) ** 0.5, dtype=v.dtype, device=v.device
        )
        ql, kl = q.size(-2), k.size(-2)
        w = torch.where(
            self.bias[:, :, kl - ql : kl, :kl],
            w,
            torch.full([], torch.finfo(w.dtype).min, dtype=w.dtype).to(w.device),
        )
        if mask is not None:
            w = w + mask
        w = nn.functional.softmax(w, dim=-1).type(v.dtype)
        o = torch.matmul(w, v).permute(0, 2, 1, 3).contiguous().view(*x.shape[:-1], -1)
        return self.c_proj(o), ((k, v) if use_cache else None)


class LM(nn.Module):
    def __init__(self, V=13, d=12, n=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, d), nn.Embedding(32, d)
        self.h = nn.ModuleList(
            [
                nn.ModuleDict(
                    dict(
                        ln=nn.LayerNorm(d),
                        attn=Attn(d, 2),
                        ln2=nn.LayerNorm(d),
                        mlp=nn.Sequential(
                            nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)
                        ),
                    )
                )
                for _ in range(n)
            ]
        )
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, V, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        labels=None,
        use_cache=False,
    ):
        if past_key_values is None:
            past_key_values = tuple([None] * len(self.h))
        if attention_mask is not None:
            position_ids = attention_mask.long().cumsum(-1) - 1
            position_ids.masked_fill_(attention_mask == 0, 1)
            position_ids = position_ids[:, -input_ids.shape[-1] :]
            attention_mask = (
                1.0 - attention_mask[:, None, None, :].to(dtype=self.wte.weight.dtype)
            ) * torch.finfo(torch.float32).min
        x = self.wte(input_ids) + self.wpe(position_ids)
        presents = ()
        for blk, past in zip(self.h, past_key_values):
            a, pres = blk["attn"](blk["ln"](x), past, attention_mask, use_cache)
            x = x + a
            x = x + blk["mlp"](blk["ln2"](x))
            presents += (pres,)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if labels is not None:
            loss = nn.CrossEntropyLoss()(
                logits[..., :-1, :].contiguous().view(-1, logits.size(-1)),
                labels[..., 1:].contiguous().view(-1),
            )
        return Out(
            loss=loss, logits=logits, past_key_values=presents if use_cache else None
        )

    @torch.no_grad()
    def beam_search(self, ids, mask, beams, n, eos=0, penalty=1.2, ngram=3):
        B = ids.size(0)
        ids = ids.repeat_interleave(beams, 0)
        mask = mask.repeat_interleave(beams, 0)
        scores = torch.zeros((B, beams), dtype=torch.float, device=ids.device)
        scores[:, 1:] = -1e9
        scores = scores.view(-1)
        past = None
        done = [[] for _ in range(B)]
        cur = ids
        for _ in range(n):
            out = self(cur, attention_mask=mask, past_key_values=past, use_cache=True)
            lp = out.logits[:, -1, :].log_softmax(-1)
            sc = torch.gather(lp, 1, ids)
            lp = lp.scatter(1, ids, torch.where(sc < 0, sc * penalty, sc / penalty))
            if ids.size(1) + 1 >= ngram:
                for b, row in enumerate(ids.tolist()):
                    bans = {}
                    for t in zip(*[row[i:] for i in range(ngram)]):
                        bans.setdefault(t[:-1], []).append(t[-1])
                    lp[b, bans.get(tuple(row[len(row) + 1 - ngram :]), [])] = -float(
                        "inf"
                    )
            V = lp.size(-1)
            nxt, tok = torch.topk(
                (lp + scores[:, None]).view(B, beams * V),
                2 * beams,
                dim=1,
                largest=True,
                sorted=True,
            )
            idx = torch.div(tok, V, rounding_mode="floor")
            tok = tok % V
            ns, nt, ni = [], [], []
            for b in range(B):
                k = 0
                for s, t, i in zip(nxt[b], tok[b], idx[b]):
                    if t.item() == eos:
                        done[b].append(
                            (s.item() / ids.size(1), ids[b * beams + i].clone())
                        )
                    else:
                        ns.append(s)
                        nt.append(t)
                        ni.append(b * beams + i)
                        k += 1
                    if k == beams:
                        break
            scores, nt, ni = torch.stack(ns), torch.stack(nt), torch.stack(ni)
            ids = torch.cat([ids[ni, :], nt.unsqueeze(-1)], dim=-1)
            mask = torch.cat([mask[ni], mask.new_ones((len(ni), 1))], -1)
            past = tuple(
                tuple(p.index_select(0, ni.to(p.device)) for p in layer)
                for layer in out.past_key_values
            )
            cur = ids[:, -1:]
        return ids, scores


def train(steps):
    m = seeded(LM()).to(device)
    opt = torch.optim.AdamW(m.parameters(), lr=1e-2)
    ids = torch.from_numpy(integers(12, 4, 8) + 1).to(device)
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    labels = ids.masked_fill(mask == 0, -100)
    res = []
    for _ in range(steps):
        out = m(ids, attention_mask=mask, labels=labels)
        loss = out[0]
        assert loss is out["loss"] is out.loss
        loss.backward()
        opt.step()
        opt.zero_grad()
        res.append(loss.item())
    m.eval()
    found, scores = m.beam_search(ids[:2, :4], mask[:2, :4], 3, 6)
    res += scores.tolist() + [float(found.sum()), float(found[:, -1].sum())]
    full = m(found, attention_mask=torch.ones_like(found)).logits
    res.append(full.float().abs().mean().item())
    # nucleus
    logits = full[:, -1]
    s, i = torch.sort(logits, descending=False)
    cp = s.softmax(dim=-1).cumsum(dim=-1)
    rem = cp <= (1 - 0.8)
    rem[..., -1:] = 0
    rem = rem.scatter(1, i, rem)
    logits = logits.masked_fill(rem, -math.inf)
    res += [float(torch.isfinite(logits).sum()), logits.softmax(-1).max().item()]
    return res
