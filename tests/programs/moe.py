"""A mixture of experts: top-k routing, index_add_, a load-balancing loss, z-loss, jitter."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class SparseMoE(nn.Module):
    def __init__(self, dim, hidden, experts, top_k):
        super().__init__()
        self.num_experts, self.top_k = experts, top_k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Linear(dim, hidden),
                    nn.GELU(approximate="tanh"),
                    nn.Linear(hidden, dim),
                )
                for _ in range(experts)
            ]
        )
        self.register_buffer(
            "tokens_per_expert", torch.zeros(experts), persistent=False
        )

    def forward(self, hidden_states):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        router_logits = self.gate(hidden_states)
        routing_weights = F.softmax(router_logits, dim=1, dtype=torch.float)
        routing_weights, selected_experts = torch.topk(
            routing_weights, self.top_k, dim=-1
        )
        routing_weights /= routing_weights.sum(dim=-1, keepdim=True)
        routing_weights = routing_weights.to(hidden_states.dtype)
        final = torch.zeros(
            (batch_size * sequence_length, hidden_dim),
            dtype=hidden_states.dtype,
            device=hidden_states.device,
        )
        expert_mask = torch.nn.functional.one_hot(
            selected_experts, num_classes=self.num_experts
        ).permute(2, 1, 0)
        expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert_idx in expert_hit:
            idx, top_x = torch.where(expert_mask[expert_idx].squeeze(0))
            current_state = hidden_states[None, top_x].reshape(-1, hidden_dim)
            current = (
                self.experts[expert_idx](current_state)
                * routing_weights[top_x, idx, None]
            )
            final.index_add_(0, top_x, current.to(hidden_states.dtype))
        with torch.no_grad():
            self.tokens_per_expert += torch.bincount(
                selected_experts.flatten(), minlength=self.num_experts
            )
        return final.reshape(batch_size, sequence_length, hidden_dim), router_logits


def load_balancing_loss(gate_logits, num_experts, top_k):
    concatenated = torch.cat([g.to(gate_logits[0].device) for g in gate_logits], dim=0)
    routing_weights = F.softmax(concatenated, dim=-1)
    _, selected = torch.topk(routing_weights, top_k, dim=-1)
    expert_mask = F.one_hot(selected, num_experts)
    tokens = torch.mean(expert_mask.float(), dim=0)
    router_prob = torch.mean(routing_weights, dim=0)
    return torch.sum(tokens * router_prob.unsqueeze(0)) * num_experts


def train(steps):
    layers = nn.ModuleList([seeded(SparseMoE(8, 12, 4, 2), i) for i in range(2)]).to(
        device
    )
    norms = nn.ModuleList(nn.RMSNorm(8) for _ in layers).to(device)
    optimizer = torch.optim.Adam([*layers.parameters(), *norms.parameters()], lr=3e-3)
    x = torch.from_numpy(normal(2, 5, 8)).to(device)
    y = x.flip(-1).roll(1, dims=1).tanh()
    results = []
    for _ in range(steps):
        h, logits = x, []
        for norm, layer in zip(norms, layers):
            out, router = layer(norm(h))
            h = h + out
            logits += [router]
        aux = load_balancing_loss(tuple(logits), 4, 2)
        z_loss = torch.stack(
            [torch.logsumexp(r, dim=-1).square().mean() for r in logits]
        ).mean()
        loss = F.mse_loss(h, y) + 0.01 * aux + 1e-3 * z_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results += [loss.item(), aux.item()]
    assert "tokens_per_expert" not in layers[0].state_dict()
    return results + layers[0].tokens_per_expert.tolist()
