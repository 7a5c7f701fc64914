"""BYOL, SimSiam, Barlow twins, VICReg, SupCon, NT-Xent; conditional GAN with embeddings, hinge/LSGAN, pix2pix patch; instance noise, replay."""

import copy
from functools import wraps
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm
from torch.autograd import grad as torch_grad

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def singleton(cache_key):
    def inner_fn(fn):
        @wraps(fn)
        def wrapper(self, *args, **kwargs):
            instance = getattr(self, cache_key)
            if instance is not None:
                return instance
            instance = fn(self, *args, **kwargs)
            setattr(self, cache_key, instance)
            return instance

        return wrapper

    return inner_fn


def loss_fn(x, y):
    x = F.normalize(x, dim=-1, p=2)
    y = F.normalize(y, dim=-1, p=2)
    return 2 - 2 * (x * y).sum(dim=-1)


class EMA:
    def __init__(self, beta):
        self.beta = beta

    def update_average(self, old, new):
        if old is None:
            return new
        return old * self.beta + (1 - self.beta) * new


class NetWrapper(nn.Module):
    def __init__(self, net, proj, layer=-2):
        super().__init__()
        self.net, self.layer, self.proj = net, layer, proj
        self.projector = None
        self.hidden = {}
        self.hook_registered = False

    def _find_layer(self):
        children = [*self.net.children()]
        return children[self.layer]

    def _hook(self, _, input, output):
        self.hidden[input[0].device] = output.reshape(output.shape[0], -1)

    def _register_hook(self):
        handle = self._find_layer().register_forward_hook(self._hook)
        self.hook_registered = True

    @singleton("projector")
    def _get_projector(self, hidden):
        _, dim = hidden.shape
        return seeded(
            nn.Sequential(
                nn.Linear(dim, 12),
                nn.BatchNorm1d(12),
                nn.ReLU(inplace=True),
                nn.Linear(12, self.proj),
            )
        ).to(hidden)

    def forward(self, x):
        if not self.hook_registered:
            self._register_hook()
        self.hidden.clear()
        _ = self.net(x)
        hidden = self.hidden.pop(x.device)
        return self._get_projector(hidden)(hidden), hidden


class BYOL(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.online_encoder = NetWrapper(net, 6)
        self.target_encoder = None
        self.ema = EMA(0.9)
        self.online_predictor = seeded(
            nn.Sequential(
                nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 6)
            )
        )
        dev = next(net.parameters()).device
        self.to(dev)
        self.forward(
            torch.randn(2, 2, 8, 8, device=dev), torch.randn(2, 2, 8, 8, device=dev)
        )

    @singleton("target_encoder")
    def _get_target_encoder(self):
        target_encoder = copy.deepcopy(self.online_encoder)
        for p in target_encoder.parameters():
            p.requires_grad = False
        return target_encoder

    def update_moving_average(self):
        for current_params, ma_params in zip(
            self.online_encoder.parameters(), self.target_encoder.parameters()
        ):
            old_weight, up_weight = ma_params.data, current_params.data
            ma_params.data = self.ema.update_average(old_weight, up_weight)

    def forward(self, a, b):
        images = torch.cat((a, b), dim=0)
        online_projections, _ = self.online_encoder(images)
        p = self.online_predictor(online_projections)
        p1, p2 = p.chunk(2, dim=0)
        with torch.no_grad():
            t, _ = self._get_target_encoder()(images)
            t = t.detach()
            t1, t2 = t.chunk(2, dim=0)
        return (loss_fn(p1, t2.detach()) + loss_fn(p2, t1.detach())).mean()


def off_diagonal(x):
    n, m = x.shape
    assert n == m
    return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


class SupConLoss(nn.Module):
    def forward(self, features, labels=None, mask=None, temperature=0.5):
        batch_size = features.shape[0]
        labels = labels.contiguous().view(-1, 1)
        mask = torch.eq(labels, labels.T).float().to(features.device)
        contrast_count = features.shape[1]
        cf = torch.cat(torch.unbind(features, dim=1), dim=0)
        adc = torch.div(torch.matmul(cf, cf.T), temperature)
        logits_max, _ = torch.max(adc, dim=1, keepdim=True)
        logits = adc - logits_max.detach()
        mask = mask.repeat(contrast_count, contrast_count)
        logits_mask = torch.scatter(
            torch.ones_like(mask),
            1,
            torch.arange(batch_size * contrast_count).view(-1, 1).to(features.device),
            0,
        )
        mask = mask * logits_mask
        exp_logits = torch.exp(logits) * logits_mask
        log_prob = logits - torch.log(exp_logits.sum(1, keepdim=True))
        mpp = mask.sum(1)
        mpp = torch.where(mpp < 1e-6, 1, mpp)
        return (-(mask * log_prob).sum(1) / mpp).view(contrast_count, batch_size).mean()


class CondGen(nn.Module):
    def __init__(self, nz=4, nc=3):
        super().__init__()
        self.label_emb = nn.Embedding(nc, nc)

        def block(i, o, normalize=True):
            layers = [nn.Linear(i, o)]
            if normalize:
                layers.append(nn.BatchNorm1d(o, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(nz + nc, 8, normalize=False),
            *block(8, 16),
            nn.Linear(16, 2 * 8 * 8),
            nn.Tanh(),
        )

    def forward(self, noise, labels):
        return self.model(torch.cat((self.label_emb(labels), noise), -1)).view(
            noise.size(0), *(2, 8, 8)
        )


class PatchD(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            spectral_norm(nn.Conv2d(2, 6, 4, 2, 1)),
            nn.LeakyReLU(0.2, True),
            nn.ZeroPad2d((1, 0, 1, 0)),
            spectral_norm(nn.Conv2d(6, 1, 4, padding=1, bias=False)),
        )

    def forward(self, x):
        return self.main(x)


def train(steps):
    net = seeded(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 8),
            nn.Linear(8, 3),
        )
    ).to(device)
    learner = BYOL(net)
    x = torch.from_numpy(normal(8, 2, 8, 8)).to(device)
    noise = torch.from_numpy(normal(steps, 2, 8, 2, 8, 8, seed=6)).to(device) * 0.3
    y = torch.from_numpy(integers(3, 8)).to(device)
    for m in learner.modules():
        if isinstance(m, nn.BatchNorm1d) or isinstance(m, nn.BatchNorm2d):
            m.reset_running_stats()
    opt = torch.optim.Adam(learner.parameters(), lr=3e-4)
    res, bn = [], seeded(nn.BatchNorm1d(6, affine=False)).to(device)
    for i in range(steps):
        a, b = x + noise[i, 0], x + noise[i, 1]
        loss = learner(a, b)
        (z1, h1), (z2, h2) = learner.online_encoder(a), learner.online_encoder(b)
        c = bn(z1).T @ bn(z2)
        c.div_(8)
        on_diag = torch.diagonal(c).add_(-1).pow_(2).sum()
        off = off_diagonal(c).pow_(2).sum()
        loss = loss + 0.1 * (on_diag + 0.0051 * off)
        std = torch.sqrt(z1.var(dim=0) + 0.0001)
        zc = z2 - z2.mean(dim=0)
        cov = (zc.T @ zc) / (8 - 1)
        loss = (
            loss + torch.mean(F.relu(1 - std)) + off_diagonal(cov).pow(2).sum().div(6)
        )
        f = torch.cat(
            [F.normalize(z1).unsqueeze(1), F.normalize(z2).unsqueeze(1)], dim=1
        )
        loss += SupConLoss()(f, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        learner.update_moving_average()
        res += [loss.item(), on_diag.item()]
    G, D = seeded(CondGen(), 1).to(device), PatchD()
    for m in D.modules():
        if isinstance(m, nn.Conv2d):
            seeded(m, 2)
            u = torch.from_numpy(normal(m.weight_u.numel(), seed=3))
            m.weight_u.copy_(u / u.norm())
    D = D.to(device)
    go, do = (
        torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.9)),
        torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.9)),
    )
    z = torch.from_numpy(normal(steps, 8, 4, seed=8)).to(device)
    for i in range(steps):
        for p in D.parameters():
            p.requires_grad_(True)
        fake = G(z[i], y).detach()
        real_img = x.clone().requires_grad_(True)
        rl = D(real_img)
        d_loss = (
            F.relu(1.0 - rl).mean()
            + F.relu(1.0 + D(fake)).mean()
            + 0.1 * F.mse_loss(rl, torch.ones_like(rl).expand_as(rl))
        )
        (g,) = torch_grad(rl.sum(), real_img, create_graph=True)
        gp = g.pow(2).reshape(g.shape[0], -1).sum(1).mean()
        do.zero_grad()
        (d_loss + 5.0 * gp).backward()
        do.step()
        for p in D.parameters():
            p.requires_grad_(False)
        out = G(z[i], y)
        diff = (out[:4] - out[4:]).abs().mean() / (z[i][:4] - z[i][4:]).abs().mean()
        g_loss = -D(out).mean() + 0.1 / (diff + 1e-5) * 0.01
        go.zero_grad()
        g_loss.backward()
        go.step()
        res += [d_loss.item(), gp.item(), g_loss.item()]
    return res
