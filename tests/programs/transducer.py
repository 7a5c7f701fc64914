"""Sequence models of rewards, items and speech: a decision transformer, SASRec, an RNN transducer by logaddexp."""

import math
import random
from functools import partial

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpad_sequence,
)

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.key, self.query, self.value, self.proj = (
            nn.Linear(n_embd, n_embd) for _ in range(4)
        )
        self.register_buffer(
            "mask",
            torch.tril(torch.ones(block_size + 1, block_size + 1)).view(
                1, 1, block_size + 1, block_size + 1
            ),
        )
        self.n_head = n_head

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_embd, block_size, max_timestep):
        super().__init__()
        self.tok_emb = nn.Embedding(act_dim, n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, block_size + 1, n_embd))
        self.global_pos_emb = nn.Parameter(torch.zeros(1, max_timestep + 1, n_embd))
        self.state_encoder = nn.Sequential(
            nn.Conv1d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * state_dim, n_embd),
            nn.Tanh(),
        )
        self.ret_emb = nn.Sequential(nn.Linear(1, n_embd), nn.Tanh())
        self.ln1, self.ln2, self.ln_f = (
            nn.LayerNorm(n_embd),
            nn.LayerNorm(n_embd),
            nn.LayerNorm(n_embd),
        )
        self.attn = CausalSelfAttention(n_embd, 2, block_size)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 2 * n_embd), nn.GELU(), nn.Linear(2 * n_embd, n_embd)
        )
        self.head = nn.Linear(n_embd, act_dim, bias=False)

    def configure_optimizers(self, learning_rate, weight_decay):
        decay, no_decay = set(), set()
        whitelist = (torch.nn.Linear, torch.nn.Conv1d)
        blacklist = (torch.nn.LayerNorm, torch.nn.Embedding)
        for mn, m in self.named_modules():
            for pn, p in m.named_parameters():
                fpn = "%s.%s" % (mn, pn) if mn else pn
                if pn.endswith("bias"):
                    no_decay.add(fpn)
                elif pn.endswith("weight") and isinstance(m, whitelist):
                    decay.add(fpn)
                elif pn.endswith("weight") and isinstance(m, blacklist):
                    no_decay.add(fpn)
        no_decay |= {"pos_emb", "global_pos_emb"}
        param_dict = {pn: p for pn, p in self.named_parameters()}
        assert (
            len(decay & no_decay) == 0
            and len(param_dict.keys() - (decay | no_decay)) == 0
        )
        groups = [
            {
                "params": [param_dict[pn] for pn in sorted(list(decay))],
                "weight_decay": weight_decay,
            },
            {
                "params": [param_dict[pn] for pn in sorted(list(no_decay))],
                "weight_decay": 0.0,
            },
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))

    def forward(self, states, actions, targets, rtgs, timesteps):
        B, T = states.shape[:2]
        state_embeddings = self.state_encoder(
            states.reshape(B * T, 1, -1).type(torch.float32).contiguous()
        ).reshape(B, T, -1)
        rtg_embeddings = self.ret_emb(rtgs.type(torch.float32))
        action_embeddings = self.tok_emb(actions.type(torch.long).squeeze(-1))
        tokens = torch.zeros(
            (B, T * 3, state_embeddings.shape[-1]),
            dtype=torch.float32,
            device=states.device,
        )
        tokens[:, ::3, :] = rtg_embeddings
        tokens[:, 1::3, :] = state_embeddings
        tokens[:, 2::3, :] = action_embeddings[:, -T:, :]
        everywhere = torch.repeat_interleave(self.global_pos_emb, B, dim=0)
        position = (
            torch.gather(
                everywhere,
                1,
                torch.repeat_interleave(timesteps, tokens.shape[-1], dim=-1),
            )
            + self.pos_emb[:, : tokens.shape[1], :]
        )
        x = tokens + position
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        logits = self.head(self.ln_f(x))[:, 1::3, :]
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.reshape(-1, logits.size(-1)), targets.reshape(-1)
            )
        return logits, loss


class SASRec(nn.Module):
    def __init__(self, item_num, maxlen, hidden, heads=2, blocks=2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen + 1, hidden, padding_idx=0)
        self.attention_layernorms, self.attention_layers, self.forward_layers = (
            nn.ModuleList(),
            nn.ModuleList(),
            nn.ModuleList(),
        )
        for _ in range(blocks):
            self.attention_layernorms.append(nn.LayerNorm(hidden, eps=1e-8))
            self.attention_layers.append(nn.MultiheadAttention(hidden, heads, 0.0))
            self.forward_layers.append(
                nn.Sequential(
                    nn.Conv1d(hidden, hidden, kernel_size=1),
                    nn.ReLU(),
                    nn.Conv1d(hidden, hidden, kernel_size=1),
                )
            )
        self.last_layernorm = nn.LayerNorm(hidden, eps=1e-8)

    def log2feats(self, log_seqs):
        dev = self.item_emb.weight.device
        seqs = self.item_emb(torch.LongTensor(log_seqs).to(dev))
        seqs *= self.item_emb.embedding_dim**0.5
        poss = np.tile(np.arange(1, log_seqs.shape[1] + 1), [log_seqs.shape[0], 1])
        poss *= log_seqs != 0
        seqs += self.pos_emb(torch.LongTensor(poss).to(dev))
        tl = seqs.shape[1]
        attention_mask = ~torch.tril(torch.ones((tl, tl), dtype=torch.bool, device=dev))
        for norm, attention, forward in zip(
            self.attention_layernorms, self.attention_layers, self.forward_layers
        ):
            seqs = torch.transpose(seqs, 0, 1)
            Q = norm(seqs)
            mha_outputs, _ = attention(Q, seqs, seqs, attn_mask=attention_mask)
            seqs = torch.transpose(Q + mha_outputs, 0, 1)
            seqs = seqs + forward(seqs.transpose(-1, -2)).transpose(-1, -2)
        return self.last_layernorm(seqs)

    def forward(self, log_seqs, pos_seqs, neg_seqs):
        log_feats = self.log2feats(log_seqs)
        dev = log_feats.device
        pos_embs = self.item_emb(torch.LongTensor(pos_seqs).to(dev))
        neg_embs = self.item_emb(torch.LongTensor(neg_seqs).to(dev))
        return (log_feats * pos_embs).sum(dim=-1), (log_feats * neg_embs).sum(dim=-1)

    def predict(self, log_seqs, item_indices):
        final_feat = self.log2feats(log_seqs)[:, -1, :]
        item_embs = self.item_emb(torch.LongTensor(item_indices).to(final_feat.device))
        return item_embs.matmul(final_feat.unsqueeze(-1)).squeeze(-1)


class Transducer(nn.Module):
    def __init__(self, features, vocab, hidden):
        super().__init__()
        self.blank = 0
        self.encoder = nn.GRU(features, hidden, batch_first=True, bidirectional=True)
        self.embed = nn.Embedding(vocab, hidden, padding_idx=self.blank)
        self.decoder = nn.LSTM(hidden, hidden, batch_first=True, proj_size=hidden // 2)
        self.enc_proj, self.dec_proj = (
            nn.Linear(2 * hidden, hidden),
            nn.Linear(hidden // 2, hidden),
        )
        self.joint = nn.Sequential(nn.Tanh(), nn.Linear(hidden, vocab))

    def forward(self, xs, ys):
        lengths = torch.tensor([len(x) for x in xs])
        packed = pack_padded_sequence(
            pad_sequence(xs, batch_first=True),
            lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        h, _ = self.encoder(packed)
        h, _ = pad_packed_sequence(h, batch_first=True)
        y = F.pad(pad_sequence(ys, True, self.blank), (1, 0))
        g, _ = self.decoder(self.embed(y))
        f, g = self.enc_proj(h).unsqueeze(dim=2), self.dec_proj(g).unsqueeze(dim=1)
        f = f.expand([-1, -1, g.size(2), -1])
        return (
            self.joint(f + g).log_softmax(-1),
            lengths,
            torch.as_tensor([len(y) for y in ys]),
        )

    def loss(self, log_probs, targets, T, U):
        total = []
        for b, target in enumerate(targets):
            lp = log_probs[b, : T[b], : U[b] + 1]
            blank, emit = (
                lp[..., self.blank],
                lp[:, :-1]
                .gather(2, target.view(1, -1, 1).expand(int(T[b]), -1, 1))
                .squeeze(2),
            )
            alpha = [F.pad(emit[0].cumsum(0), (1, 0))]
            for t in range(1, int(T[b])):
                stay, row = alpha[-1] + blank[t - 1], []
                for u in range(int(U[b]) + 1):
                    row.append(
                        stay[u]
                        if u == 0
                        else torch.logaddexp(stay[u], row[-1] + emit[t, u - 1])
                    )
                alpha.append(torch.stack(row))
            total.append(-(alpha[-1][-1] + blank[-1, -1]))
        return torch.stack(total).mean()


def discount_cumsum(x, gamma):
    powers = gamma ** torch.arange(len(x), dtype=x.dtype, device=x.device)
    return torch.flip(torch.cumsum(torch.flip(x * powers, [0]), 0), [0]) / powers


def train(steps):
    random.seed(1)
    B, T, state_dim, act_dim = 2, 4, 5, 3
    dt = DecisionTransformer(state_dim, act_dim, 8, 3 * T, 10)
    for m, fn in {dt: partial(torch.nn.init.normal_, mean=0.0, std=0.02)}.items():
        m.apply(
            lambda module, fn=fn: (
                fn(module.weight)
                if isinstance(module, (nn.Linear, nn.Embedding))
                else None
            )
        )
    dt, sas, rnnt = (
        seeded(dt).to(device),
        seeded(SASRec(9, 5, 8), 1).to(device),
        seeded(Transducer(4, 5, 6), 2).to(device),
    )
    states = torch.from_numpy(normal(B, T, state_dim)).to(device)
    actions = torch.from_numpy(integers(act_dim, B, T, 1)).to(device)
    rewards = torch.from_numpy(normal(B, T, seed=4)).to(device)
    rtgs = torch.stack([discount_cumsum(r, 0.9) for r in rewards])[..., None]
    timesteps = torch.tensor([[[2]], [[5]]], dtype=torch.int64, device=device)
    seq = np.array([[0, 0, 3, 4, 5], [1, 2, 8, 9, 7], [0, 6, 1, 3, 2]])
    pos, neg = np.roll(seq, -1, 1) * (seq != 0), (seq + 4) % 9 + 1
    xs = [torch.from_numpy(normal(n, 4, seed=n)).to(device) for n in (3, 5, 4)]
    ys = [torch.from_numpy(integers(4, n, seed=n)).to(device) + 1 for n in (2, 3, 1)]
    optimizers = [
        dt.configure_optimizers(3e-3, 0.1),
        torch.optim.Adam(sas.parameters(), lr=0.005, betas=(0.9, 0.98)),
        torch.optim.Adadelta(rnnt.parameters(), lr=0.5),
    ]
    bce, losses = nn.BCEWithLogitsLoss(), []
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        _, first = dt(states, actions, actions, rtgs, timesteps)
        pos_logits, neg_logits = sas(seq, pos, neg)
        pos_labels, neg_labels = (
            torch.ones(pos_logits.shape, device=device),
            torch.zeros(neg_logits.shape, device=device),
        )
        indices = np.where(pos != 0)
        second = bce(pos_logits[indices], pos_labels[indices])
        second += bce(neg_logits[indices], neg_labels[indices])
        for param in sas.item_emb.parameters():
            second += 1e-3 * torch.norm(param)
        log_probs, t, u = rnnt(xs, ys)
        third = rnnt.loss(log_probs, ys, t, u)
        (first + second + third).backward()
        for optimizer in optimizers:
            optimizer.step()
        losses += [first.item(), second.item(), third.item()]
    sas.eval()
    ranks = (
        (-sas.predict(seq, np.arange(1, 10)[None].repeat(3, 0)))
        .argsort()
        .argsort()[:, 0]
    )
    rebuilt = unpad_sequence(pad_sequence(xs), torch.tensor([3, 5, 4]))
    assert all(torch.equal(a, b) for a, b in zip(rebuilt, xs))
    return [*losses, ranks.float().mean().item()]
