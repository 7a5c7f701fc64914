"""Calibrated classifiers: temperature by LBFGS, ECE, evidential Dirichlet losses, SNGP-like features, conformal sets."""

import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Beta, Categorical, Dirichlet, kl_divergence
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")
CLASSES = 4


class ModelWithTemperature(nn.Module):
    def __init__(self, model):
        super(ModelWithTemperature, self).__init__()
        self.model = model
        self.temperature = nn.Parameter(torch.ones(1) * 1.5)

    def forward(self, input):
        return self.temperature_scale(self.model(input))

    def temperature_scale(self, logits):
        temperature = self.temperature.unsqueeze(1).expand(
            logits.size(0), logits.size(1)
        )
        return logits / temperature

    def set_temperature(self, valid_loader):
        self.to(device)
        nll_criterion = nn.CrossEntropyLoss().to(device)
        ece_criterion = _ECELoss().to(device)
        logits_list, labels_list = [], []
        with torch.no_grad():
            for input, label in valid_loader:
                input = input.to(device)
                logits_list.append(self.model(input))
                labels_list.append(label)
            logits, labels = (
                torch.cat(logits_list).to(device),
                torch.cat(labels_list).to(device),
            )
        before = (
            nll_criterion(logits, labels).item(),
            ece_criterion(logits, labels).item(),
        )
        optimizer = optim.LBFGS(
            [self.temperature], lr=0.1, max_iter=10, line_search_fn="strong_wolfe"
        )

        def eval():
            optimizer.zero_grad()
            loss = nll_criterion(self.temperature_scale(logits), labels)
            loss.backward()
            return loss

        optimizer.step(eval)
        after = nll_criterion(self.temperature_scale(logits), labels).item()
        return [*before, round(after, 3)]


class _ECELoss(nn.Module):
    def __init__(self, n_bins=5):
        super(_ECELoss, self).__init__()
        bin_boundaries = torch.linspace(0, 1, n_bins + 1)
        self.bin_lowers = bin_boundaries[:-1]
        self.bin_uppers = bin_boundaries[1:]

    def forward(self, logits, labels):
        softmaxes = F.softmax(logits, dim=1)
        confidences, predictions = torch.max(softmaxes, 1)
        accuracies = predictions.eq(labels)
        ece = torch.zeros(1, device=logits.device)
        for bin_lower, bin_upper in zip(self.bin_lowers, self.bin_uppers):
            in_bin = confidences.gt(bin_lower.item()) * confidences.le(bin_upper.item())
            prop_in_bin = in_bin.float().mean()
            if prop_in_bin.item() > 0:
                accuracy_in_bin = accuracies[in_bin].float().mean()
                avg_confidence_in_bin = confidences[in_bin].mean()
                ece += torch.abs(avg_confidence_in_bin - accuracy_in_bin) * prop_in_bin
        return ece


class RandomFeatures(nn.Module):
    def __init__(self, in_dim, num_inducing):
        super().__init__()
        self.register_buffer(
            "W", torch.from_numpy(normal(num_inducing, in_dim, seed=3))
        )
        self.register_buffer(
            "b",
            torch.from_numpy(
                np.random.default_rng(4).uniform(0, 2 * np.pi, num_inducing)
            ).float(),
        )
        self.register_buffer("precision", torch.eye(num_inducing))
        self.beta = nn.Linear(num_inducing, CLASSES, bias=False)

    def features(self, x):
        return torch.cos(F.linear(x, -self.W, self.b)) * (2 / self.W.shape[0]) ** 0.5

    def forward(self, x):
        phi = self.features(x)
        logits = self.beta(phi)
        if self.training:
            with torch.no_grad():
                self.precision = 0.9 * self.precision + 0.1 * phi.t() @ phi
            return logits
        L = torch.linalg.cholesky(self.precision)
        variance = (phi * torch.cholesky_solve(phi.t(), L).t()).sum(-1)
        return logits / torch.sqrt(1 + np.pi / 8 * variance)[:, None]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, 8)
        self.blocks = nn.ModuleList(
            spectral_norm(nn.Linear(8, 8), n_power_iterations=1) for _ in range(2)
        )
        self.head = RandomFeatures(8, 16)
        self.evidence = nn.Linear(8, CLASSES)

    def forward(self, x, return_evidence=False):
        x = self.stem(x)
        for block in self.blocks:
            x = x + F.mish(block(x))
        logits = self.head(x)
        return (logits, F.softplus(self.evidence(x))) if return_evidence else logits


def edl_mse_loss(alpha, target, epoch, annealing=10):
    S = torch.sum(alpha, dim=1, keepdim=True)
    err = torch.sum((target - alpha / S) ** 2, dim=1, keepdim=True)
    var = torch.sum(alpha * (S - alpha) / (S * S * (S + 1)), dim=1, keepdim=True)
    coef = torch.min(
        torch.tensor(1.0, dtype=torch.float32),
        torch.tensor(epoch / annealing, dtype=torch.float32),
    )
    kl_alpha = (alpha - 1) * (1 - target) + 1
    return (err + var + coef.to(alpha.device) * kl_divergence_flat(kl_alpha)).mean()


def edl_digamma_loss(alpha, target):
    return torch.sum(
        target * (torch.digamma(alpha.sum(1, keepdim=True)) - torch.digamma(alpha)),
        dim=1,
    ).mean()


def kl_divergence_flat(alpha):
    ones = torch.ones([1, CLASSES], dtype=torch.float32, device=alpha.device)
    sum_alpha = torch.sum(alpha, dim=1, keepdim=True)
    first = (
        torch.lgamma(sum_alpha)
        - torch.lgamma(alpha).sum(dim=1, keepdim=True)
        + torch.lgamma(ones).sum(dim=1, keepdim=True)
        - torch.lgamma(ones.sum(dim=1, keepdim=True))
    )
    second = (
        (alpha - ones)
        .mul(torch.digamma(alpha) - torch.digamma(sum_alpha))
        .sum(dim=1, keepdim=True)
    )
    return first + second


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=None):
        super().__init__()
        self.gamma = gamma
        self.alpha = torch.Tensor(alpha) if isinstance(alpha, list) else alpha

    def forward(self, input, target):
        target = target.view(-1, 1)
        logpt = F.log_softmax(input, dim=-1).gather(1, target).view(-1)
        pt = logpt.data.exp()
        if self.alpha is not None:
            if self.alpha.type() != input.data.type():
                self.alpha = self.alpha.type_as(input.data)
            logpt = logpt * self.alpha.to(input.device).gather(0, target.data.view(-1))
        return (-1 * (1 - pt) ** self.gamma * logpt).mean()


def conformal(probabilities, labels, alpha=0.4):
    n = labels.shape[0] // 2
    sort, pi = probabilities.sort(dim=1, descending=True)
    scores = sort.cumsum(dim=1).gather(1, pi.argsort(1))[range(n), labels[:n]]
    level = np.ceil((n + 1) * (1 - alpha)) / n
    qhat = torch.quantile(scores, min(level, 1.0), interpolation="higher")
    sets = torch.zeros_like(probabilities[n:], dtype=torch.bool).scatter(
        1, pi[n:], sort[n:].cumsum(1) <= qhat
    )
    return sets.float().sum(1).mean().item(), sets[
        torch.arange(len(sets)), labels[n:]
    ].float().mean().item()


def train(steps):
    torch.manual_seed(0)
    net = seeded(Net()).to(device)
    with torch.no_grad():
        for block in net.blocks:
            state = block.parametrizations.weight[0]
            state._u.copy_(F.normalize(torch.arange(1.0, 9.0), dim=0))
            state._v.copy_(F.normalize(torch.arange(8.0, 0.0, -1.0), dim=0))
    x = torch.from_numpy(normal(32, 5)).to(device)
    y = torch.from_numpy(integers(CLASSES, 32)).to(device)
    one_hot = F.one_hot(y, num_classes=CLASSES).float()
    focal = FocalLoss(alpha=[0.2, 0.3, 0.3, 0.2])
    optimizer = optim.RAdam(
        [
            {"params": net.stem.parameters()},
            {
                "params": [p for n, p in net.named_parameters() if "stem" not in n],
                "lr": 0.005,
            },
        ],
        lr=0.01,
    )
    warmup = optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=4)
    cosine = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16)
    scheduler = optim.lr_scheduler.SequentialLR(
        optimizer, [warmup, cosine], milestones=[4]
    )
    losses = []
    for epoch in range(steps):
        net.train()
        logits, evidence = net(x, return_evidence=True)
        alpha = evidence + 1
        law = Dirichlet(alpha)
        entropy = Categorical(logits=logits).entropy().mean()
        prior = kl_divergence(law, Dirichlet(torch.ones_like(alpha))).mean()
        marginal = (
            Beta(alpha[:, 0], alpha[:, 1:].sum(1))
            .log_prob(torch.full((32,), 0.3, device=device))
            .mean()
        )
        loss = (
            focal(logits, y)
            - 0.1 * entropy
            + edl_mse_loss(alpha, one_hot, epoch)
            + edl_digamma_loss(alpha, one_hot)
        )
        loss = (
            loss
            + 0.01 * (prior - marginal)
            + F.cross_entropy(logits, y, label_smoothing=0.1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    net.eval()
    dataset = torch.utils.data.TensorDataset(x.cpu(), y.cpu())
    first, second = torch.utils.data.random_split(
        dataset, [0.5, 0.5], generator=torch.Generator().manual_seed(0)
    )
    assert len(first) == len(second) == 16
    losses += ModelWithTemperature(net).set_temperature(
        torch.utils.data.DataLoader(dataset, batch_size=16)
    )
    with torch.no_grad():
        losses += conformal(net(x).softmax(1), y)
        losses.append(law.mean.max(1)[0].mean().item())
    return losses
