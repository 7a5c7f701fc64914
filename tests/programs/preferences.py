"""Direct preference optimisation of a toy policy with a frozen reference, and its average."""

import copy
from typing import Dict, List, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class Policy(nn.Module):
    def __init__(self, vocab=20, d=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.gru = nn.GRU(d, d, num_layers=1, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.tok(ids))
        return self.out(h)


def get_batch_logps(
    logits: torch.FloatTensor, labels: torch.LongTensor, average_log_prob: bool = False
) -> torch.FloatTensor:
    assert logits.shape[:-1] == labels.shape
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels != -100
    labels[labels == -100] = 0
    per_token_logps = torch.gather(
        logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)
    ).squeeze(2)
    if average_log_prob:
        return (per_token_logps * loss_mask).sum(-1) / loss_mask.sum(-1)
    return (per_token_logps * loss_mask).sum(-1)


def pad_to_length(
    tensor: torch.Tensor, length: int, pad_value: Union[int, float], dim: int = -1
) -> torch.Tensor:
    if tensor.size(dim) >= length:
        return tensor
    pad_size = list(tensor.shape)
    pad_size[dim] = length - tensor.size(dim)
    return torch.cat(
        [
            tensor,
            pad_value * torch.ones(*pad_size, dtype=tensor.dtype, device=tensor.device),
        ],
        dim=dim,
    )


def concatenated_inputs(batch: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    max_length = max(batch["chosen"].shape[1], batch["rejected"].shape[1])
    return {
        "ids": torch.cat(
            [pad_to_length(batch[k], max_length, 0) for k in ("chosen", "rejected")]
        ),
        "labels": torch.cat(
            [
                pad_to_length(batch[k + "_labels"], max_length, -100)
                for k in ("chosen", "rejected")
            ],
            dim=0,
        ),
    }


def dpo_loss(
    pc, pr, rc, rr, beta, label_smoothing=0.0, ipo=False
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = (pc - pr) - (rc - rr)
    if ipo:
        losses = (logits - 1 / (2 * beta)) ** 2
    else:
        losses = (
            -F.logsigmoid(beta * logits) * (1 - label_smoothing)
            - F.logsigmoid(-beta * logits) * label_smoothing
        )
    return losses, beta * (pc - rc).detach(), beta * (pr - rr).detach()


def forward(model, batch):
    c = concatenated_inputs(batch)
    logps = get_batch_logps(model(c["ids"]).to(torch.float32), c["labels"])
    n = batch["chosen"].shape[0]
    return logps[:n], logps[n:]


def train(steps):
    policy = seeded(Policy()).to(device)
    reference = copy.deepcopy(policy)
    for p in reference.parameters():
        p.requires_grad = False
    reference.eval()
    optimizer = getattr(torch.optim, "RMSprop")(policy.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 5)
    )
    metrics: Dict[str, List[float]] = {}
    losses = []
    for i in range(steps):
        batch = {
            "chosen": torch.tensor(integers(20, 4, 8, seed=i)),
            "rejected": torch.tensor(integers(20, 4, 6, seed=100 + i)),
        }
        for k in ("chosen", "rejected"):
            labels = batch[k].clone()
            labels[:, :2] = -100
            batch[k + "_labels"] = labels
        batch = {k: v.to(device) for k, v in batch.items()}
        pc, pr = forward(policy, batch)
        with torch.no_grad():
            rc, rr = forward(reference, batch)
        per_pair, chosen_rewards, rejected_rewards = dpo_loss(
            pc, pr, rc, rr, 0.3, 0.1, ipo=i % 5 == 4
        )
        accs = (chosen_rewards > rejected_rewards).float()
        metrics.setdefault("acc", []).extend(accs.cpu().numpy().tolist())
        metrics.setdefault("margin", []).extend(
            (chosen_rewards - rejected_rewards).cpu().numpy().tolist()
        )
        per_pair.mean().backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0).item()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        losses += [per_pair.mean().item(), grad_norm]
    print({k: round(sum(v) / len(v), 3) for k, v in metrics.items()})
    return losses + metrics["margin"]
