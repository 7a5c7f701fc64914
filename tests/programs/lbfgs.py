"""Parameters of a damped oscillation, found by L-BFGS."""

import torch

from tests.programs.seeding import normal

device = torch.device("cpu")


def train(steps):
    t = torch.linspace(0, 4, 60, device=device)
    noise = torch.from_numpy(normal(60)).to(device)
    truth = 2.0 * torch.exp(-0.5 * t) * torch.cos(3.0 * t + 0.3) + 0.01 * noise
    params = torch.tensor([1.5, 0.3, 2.8, 0.0], device=device, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [params], lr=0.5, max_iter=4, history_size=6, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        amplitude, decay, frequency, phase = params
        y = amplitude * torch.exp(-decay * t) * torch.cos(frequency * t + phase)
        loss = ((y - truth) ** 2).mean()
        if loss.requires_grad:
            loss.backward()
        return loss

    losses = []
    for _ in range(steps // 4):
        losses.append(optimizer.step(closure).item())
    return losses + params.detach().cpu().numpy().tolist()
