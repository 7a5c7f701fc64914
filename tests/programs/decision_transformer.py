"""A decision transformer: returns to go, padded trajectories, evaluation step by step."""

import dataclasses
import math
from collections import defaultdict, deque
from typing import Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from tests.programs.seeding import seeded

device = torch.device("cpu")


@dataclasses.dataclass
class Config:
    state_dim: int = 3
    actions: int = 4
    width: int = 16
    heads: int = 2
    layers: int = 2
    context: int = 6
    max_ep_len: int = 12
    dropout: float = 0.0
    tie: Optional[bool] = None


class CausalSelfAttention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.n_head = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)
        size = 3 * config.context
        self.register_buffer(
            "bias",
            torch.tril(torch.ones(size, size, dtype=torch.uint8)).view(
                1, 1, size, size
            ),
        )
        self.register_buffer("masked_bias", torch.tensor(-1e4), persistent=False)

    def forward(self, x, attention_mask):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k, q, v = (
            t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for t in (k, q, v)
        )
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        w = torch.where(self.bias[:, :, :T, :T].bool(), w, self.masked_bias.to(w.dtype))
        w = w + attention_mask
        w = nn.Softmax(dim=-1)(w)
        return self.c_proj((w @ v).transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(config.width, eps=1e-5) for _ in range(2))
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.width, 4 * config.width),
                act=nn.GELU(approximate="tanh"),
                c_proj=nn.Linear(4 * config.width, config.width),
            )
        )

    def forward(self, x, attention_mask):
        x = x + self.attn(self.ln_1(x), attention_mask)
        m = self.mlp
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))


class DecisionTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d = config.width
        self.embed_timestep = nn.Embedding(config.max_ep_len, d)
        self.embed_return = nn.Linear(1, d)
        self.embed_state = nn.Linear(config.state_dim, d)
        self.embed_action = nn.Embedding(
            config.actions + 1, d, padding_idx=config.actions
        )
        self.embed_ln = nn.LayerNorm(d)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.predict_action = nn.Linear(d, config.actions, bias=False)
        self.predict_return = nn.Linear(d, 1)
        if config.tie is None:
            self.predict_action.weight = nn.Parameter(
                self.embed_action.weight[:-1].clone()
            )

    def forward(self, states, actions, returns_to_go, timesteps, attention_mask=None):
        B, T = states.shape[0], states.shape[1]
        if attention_mask is None:
            attention_mask = torch.ones((B, T), dtype=torch.long, device=states.device)
        time = self.embed_timestep(timesteps)
        stacked = (
            torch.stack(
                (
                    self.embed_return(returns_to_go) + time,
                    self.embed_state(states) + time,
                    self.embed_action(actions) + time,
                ),
                dim=1,
            )
            .permute(0, 2, 1, 3)
            .reshape(B, 3 * T, self.config.width)
        )
        x = self.embed_ln(stacked)
        mask = (
            torch.stack((attention_mask,) * 3, dim=1).permute(0, 2, 1).reshape(B, 3 * T)
        )
        mask = mask[:, None, None, :].to(dtype=x.dtype)
        mask = (1.0 - mask) * torch.finfo(x.dtype).min
        for block in self.blocks:
            x = block(x, mask)
        x = x.reshape(B, T, 3, -1).permute(0, 2, 1, 3)
        return self.predict_action(x[:, 1]), self.predict_return(x[:, 2])


class Trajectories(Dataset):
    def __init__(self, count, config, rng):
        self.config, self.rng = config, rng
        self.paths = []
        for _ in range(count):
            path, state = defaultdict(list), rng.standard_normal(3).astype(np.float32)
            for _ in range(int(rng.integers(3, config.max_ep_len))):
                action = int(rng.integers(config.actions))
                path["states"].append(state)
                path["actions"].append(action)
                path["rewards"].append(float(np.tanh(state[action % 3])))
                state = (0.8 * np.roll(state, action)).astype(np.float32)
            self.paths.append({k: np.array(v) for k, v in path.items()})
        self.returns = np.array([p["rewards"].sum() for p in self.paths])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, idx):
        p, K = self.paths[idx], self.config.context
        start = len(p["actions"]) // 3
        to_go = np.cumsum(p["rewards"][::-1])[::-1][start : start + K].copy()
        return (
            torch.from_numpy(p["states"][start : start + K]),
            torch.as_tensor(p["actions"][start : start + K]),
            torch.tensor(to_go, dtype=torch.float32).unsqueeze(-1),
            torch.arange(start, start + len(to_go)),
        )


def collate(batch, pad):
    states, actions, returns, steps = zip(*batch)
    lengths = torch.tensor([len(s) for s in states])
    mask = torch.arange(lengths.max())[None, :] < lengths[:, None]
    return {
        "states": pad_sequence(states, batch_first=True),
        "actions": pad_sequence(actions, batch_first=True, padding_value=pad),
        "returns_to_go": pad_sequence(returns, batch_first=True),
        "timesteps": pad_sequence(steps, batch_first=True),
        "attention_mask": mask.long(),
    }


@torch.no_grad()
def evaluate(model, config, target):
    model.eval()
    keep = config.context
    states, actions = deque(maxlen=keep), deque(maxlen=keep)
    returns, steps = deque(maxlen=keep), deque(maxlen=keep)
    state, total = torch.tensor([0.5, -0.2, 1.0], device=device), 0.0
    for t in range(config.max_ep_len):
        states.append(state)
        actions.append(torch.tensor(config.actions, device=device))
        returns.append(torch.tensor([target - total], device=device))
        steps.append(torch.tensor(t, device=device))
        batch = [
            torch.stack(list(each)).unsqueeze(0)
            for each in (states, actions, returns, steps)
        ]
        logits, _ = model(*batch)
        action = logits[0, -1].argmax()
        actions[-1] = action
        total += torch.tanh(state[action.item() % 3]).item()
        state = 0.8 * state.roll(action.item())
    return total


def train(steps):
    config = Config()
    data = Trajectories(24, config, np.random.default_rng(8))
    order = np.argsort(data.returns)
    weights = np.linspace(0.2, 1, len(order))[order.argsort()]
    sampler = WeightedRandomSampler(torch.as_tensor(weights), len(data))
    assert len(list(sampler)) == len(data)
    loader = DataLoader(
        data,
        batch_size=6,
        collate_fn=lambda b: collate(b, config.actions),
        drop_last=True,
    )
    model = seeded(DecisionTransformer(config)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, total_iters=4),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps),
        ],
        milestones=[4],
    )
    losses, batches = [], iter(loader)
    for _ in range(steps):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        model.train()
        logits, value = model(**batch)
        keep = batch["attention_mask"].reshape(-1) > 0
        wanted = batch["actions"].reshape(-1)[keep]
        loss = F.cross_entropy(logits.reshape(-1, config.actions)[keep], wanted)
        error = (value - batch["returns_to_go"]).squeeze(-1)
        loss = loss + 0.1 * error[batch["attention_mask"] == 1].square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach().cpu().item())
    return losses + [evaluate(model, config, 2.0), *scheduler.get_last_lr()]
