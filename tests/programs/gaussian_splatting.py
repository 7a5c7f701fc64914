"""Gaussian splatting in the plane: quaternions, alpha blending, densification that edits Adam."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.programs.seeding import normal

device = torch.device("cpu")
C0 = 0.28209479177387814


def inverse_sigmoid(x):
    return torch.log(x / (1 - x))


def get_expon_lr_func(lr_init, lr_final, lr_delay_mult=1.0, max_steps=20):
    def helper(step):
        if step < 0 or (lr_init == 0.0 and lr_final == 0.0):
            return 0.0
        t = np.clip(step / max_steps, 0, 1)
        log_lerp = np.exp(np.log(lr_init) * (1 - t) + np.log(lr_final) * t)
        return lr_delay_mult * log_lerp

    return helper


def build_rotation(r):
    norm = torch.sqrt(
        r[:, 0] * r[:, 0] + r[:, 1] * r[:, 1] + r[:, 2] * r[:, 2] + r[:, 3] * r[:, 3]
    )
    q = r / norm[:, None]
    R = torch.zeros((q.size(0), 3, 3), device=r.device)
    r, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    R[:, 0, 0] = 1 - 2 * (y * y + z * z)
    R[:, 0, 1] = 2 * (x * y - r * z)
    R[:, 0, 2] = 2 * (x * z + r * y)
    R[:, 1, 0] = 2 * (x * y + r * z)
    R[:, 1, 1] = 1 - 2 * (x * x + z * z)
    R[:, 1, 2] = 2 * (y * z - r * x)
    R[:, 2, 0] = 2 * (x * z - r * y)
    R[:, 2, 1] = 2 * (y * z + r * x)
    R[:, 2, 2] = 1 - 2 * (x * x + y * y)
    return R


def build_scaling_rotation(s, r):
    L = torch.zeros((s.shape[0], 3, 3), dtype=torch.float, device=s.device)
    R = build_rotation(r)
    L[:, 0, 0] = s[:, 0]
    L[:, 1, 1] = s[:, 1]
    L[:, 2, 2] = s[:, 2]
    return R @ L


def strip_lowerdiag(L):
    uncertainty = torch.zeros((L.shape[0], 6), dtype=torch.float, device=L.device)
    for k, (i, j) in enumerate([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]):
        uncertainty[:, k] = L[:, i, j]
    return uncertainty


class GaussianModel:
    def __init__(self, points, colors):
        self.scaling_activation = torch.exp
        self.opacity_activation = torch.sigmoid
        self.rotation_activation = F.normalize
        fused = torch.tensor(np.asarray(points)).float().to(device)
        dist2 = torch.clamp_min(
            torch.cdist(fused, fused).square_().topk(2, largest=False)[0][:, 1], 1e-7
        )
        scales = torch.log(torch.sqrt(dist2))[..., None].repeat(1, 3)
        rots = torch.zeros((fused.shape[0], 4), device=device)
        rots[:, 0] = 1
        opacities = inverse_sigmoid(
            0.3 * torch.ones((fused.shape[0], 1), device=device)
        )
        sh = (torch.from_numpy(colors).to(device) - 0.5) / C0
        self._xyz = nn.Parameter(fused.requires_grad_(True))
        self._features = nn.Parameter(sh.contiguous().requires_grad_(True))
        self._scaling = nn.Parameter(scales.requires_grad_(True))
        self._rotation = nn.Parameter(rots.requires_grad_(True))
        self._opacity = nn.Parameter(opacities.requires_grad_(True))
        self.xyz_gradient_accum = torch.zeros((fused.shape[0], 1), device=device)
        self.denom = torch.zeros((fused.shape[0], 1), device=device)
        self.max_radii2D = torch.zeros((fused.shape[0]), device=device)
        groups = [
            {"params": [self._xyz], "lr": 0.01, "name": "xyz"},
            {"params": [self._features], "lr": 0.02, "name": "f_dc"},
            {"params": [self._opacity], "lr": 0.05, "name": "opacity"},
            {"params": [self._scaling], "lr": 0.005, "name": "scaling"},
            {"params": [self._rotation], "lr": 0.001, "name": "rotation"},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=0.0, eps=1e-8)
        self.xyz_scheduler = get_expon_lr_func(0.01, 0.001)

    @property
    def covariance(self):
        L = build_scaling_rotation(
            self.scaling_activation(self._scaling), self._rotation
        )
        return L @ L.transpose(1, 2)

    def update_learning_rate(self, iteration):
        for param_group in self.optimizer.param_groups:
            if param_group["name"] == "xyz":
                lr = self.xyz_scheduler(iteration)
                param_group["lr"] = lr
                return lr

    def _attributes(self, tensors):
        self._xyz, self._features = tensors["xyz"], tensors["f_dc"]
        self._opacity, self._scaling = tensors["opacity"], tensors["scaling"]
        self._rotation = tensors["rotation"]

    def replace_tensor_to_optimizer(self, tensor, name):
        for group in self.optimizer.param_groups:
            if group["name"] == name:
                stored = self.optimizer.state.get(group["params"][0], None)
                stored["exp_avg"] = torch.zeros_like(tensor)
                stored["exp_avg_sq"] = torch.zeros_like(tensor)
                del self.optimizer.state[group["params"][0]]
                group["params"][0] = nn.Parameter(tensor.requires_grad_(True))
                self.optimizer.state[group["params"][0]] = stored
                return group["params"][0]

    def reset_opacity(self):
        opacity = self.opacity_activation(self._opacity)
        new = inverse_sigmoid(torch.min(opacity, torch.ones_like(opacity) * 0.25))
        self._opacity = self.replace_tensor_to_optimizer(new.detach(), "opacity")

    def prune_points(self, mask):
        valid = ~mask
        kept = {}
        for group in self.optimizer.param_groups:
            stored = self.optimizer.state.get(group["params"][0], None)
            if stored is not None:
                stored["exp_avg"] = stored["exp_avg"][valid]
                stored["exp_avg_sq"] = stored["exp_avg_sq"][valid]
                del self.optimizer.state[group["params"][0]]
                group["params"][0] = nn.Parameter(
                    group["params"][0][valid].requires_grad_(True)
                )
                self.optimizer.state[group["params"][0]] = stored
            else:
                group["params"][0] = nn.Parameter(
                    group["params"][0][valid].requires_grad_(True)
                )
            kept[group["name"]] = group["params"][0]
        self._attributes(kept)
        self.xyz_gradient_accum = self.xyz_gradient_accum[valid]
        self.denom = self.denom[valid]
        self.max_radii2D = self.max_radii2D[valid]

    def cat_tensors_to_optimizer(self, tensors):
        made = {}
        for group in self.optimizer.param_groups:
            assert len(group["params"]) == 1
            extension = tensors[group["name"]]
            stored = self.optimizer.state.get(group["params"][0], None)
            if stored is not None:
                for key in ("exp_avg", "exp_avg_sq"):
                    stored[key] = torch.cat(
                        (stored[key], torch.zeros_like(extension)), dim=0
                    )
                del self.optimizer.state[group["params"][0]]
            joined = torch.cat((group["params"][0], extension), dim=0)
            group["params"][0] = nn.Parameter(joined.requires_grad_(True))
            if stored is not None:
                self.optimizer.state[group["params"][0]] = stored
            made[group["name"]] = group["params"][0]
        self._attributes(made)
        count = self._xyz.shape[0]
        self.xyz_gradient_accum = torch.zeros((count, 1), device=device)
        self.denom = torch.zeros((count, 1), device=device)
        self.max_radii2D = torch.zeros((count), device=device)

    def densify_and_clone(self, grads, threshold):
        selected = torch.where(torch.norm(grads, dim=-1) >= threshold, True, False)
        selected = torch.logical_and(
            selected,
            torch.max(self.scaling_activation(self._scaling), dim=1).values <= 1.5,
        )
        self.cat_tensors_to_optimizer(
            {
                "xyz": self._xyz[selected],
                "f_dc": self._features[selected],
                "opacity": self._opacity[selected],
                "scaling": self._scaling[selected],
                "rotation": self._rotation[selected],
            }
        )
        return int(selected.sum())

    def densify_and_split(self, grads, threshold, N=2):
        n_init = self._xyz.shape[0]
        padded = torch.zeros((n_init), device=device)
        padded[: grads.shape[0]] = grads.squeeze()
        selected = torch.where(padded >= threshold, True, False)
        stds = self.scaling_activation(self._scaling)[selected].repeat(N, 1)
        samples = torch.from_numpy(normal(*stds.shape, seed=n_init)).to(device) * stds
        rots = build_rotation(self._rotation[selected]).repeat(N, 1, 1)
        new_xyz = torch.bmm(rots, samples.unsqueeze(-1)).squeeze(-1) + self._xyz[
            selected
        ].repeat(N, 1)
        new_scaling = torch.log(
            self.scaling_activation(self._scaling)[selected].repeat(N, 1) / (0.8 * N)
        )
        self.cat_tensors_to_optimizer(
            {
                "xyz": new_xyz,
                "f_dc": self._features[selected].repeat(N, 1),
                "opacity": self._opacity[selected].repeat(N, 1),
                "scaling": new_scaling,
                "rotation": self._rotation[selected].repeat(N, 1),
            }
        )
        self.prune_points(
            torch.cat(
                (selected, torch.zeros(N * selected.sum(), device=device, dtype=bool))
            )
        )

    def add_densification_stats(self, grad, update_filter):
        self.xyz_gradient_accum[update_filter] += torch.norm(
            grad[update_filter, :2], dim=-1, keepdim=True
        )
        self.denom[update_filter] += 1


def render(model, size, screen):
    ys, xs = torch.meshgrid(
        torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij"
    )
    grid = torch.stack([xs, ys], -1).reshape(-1, 2).to(device)
    means = model._xyz + screen
    order = means[:, 2].detach().argsort(stable=True)
    cov = model.covariance[order][:, :2, :2] + 1e-2 * torch.eye(2, device=device)
    packed = strip_lowerdiag(model.covariance)[:, [0, 1, 3]]
    det = cov[:, 0, 0] * cov[:, 1, 1] - cov[:, 0, 1] ** 2
    mid = 0.5 * (cov[:, 0, 0] + cov[:, 1, 1])
    radii = torch.ceil(
        3.0 * torch.sqrt(mid + torch.sqrt((mid**2 - det).clamp(min=1e-6)))
    )
    conic = torch.linalg.inv(cov)
    d = grid[:, None] - means[order][None, :, :2]
    power = -0.5 * torch.einsum("pni,nij,pnj->pn", d, conic, d)
    alpha = (model.opacity_activation(model._opacity)[order].T * power.exp()).clamp(
        max=0.99
    )
    alpha = torch.where(alpha < 1 / 255, torch.zeros((), device=device), alpha)
    T = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha], 1), 1)
    colors = torch.clamp_min(model._features[order] * C0 + 0.5, 0.0)
    image = (T[:, :-1] * alpha) @ colors + T[:, -1:] * torch.ones(3, device=device)
    visible = torch.zeros_like(model.max_radii2D).scatter_(0, order, radii.detach())
    return image.reshape(size, size, 3).permute(2, 0, 1), visible, packed


def gaussian_window(window_size, channel):
    g = torch.Tensor(
        [
            math.exp(-((x - window_size // 2) ** 2) / float(2 * 1.5**2))
            for x in range(window_size)
        ]
    )
    g = (g / g.sum()).unsqueeze(1)
    window = g.mm(g.t()).float().unsqueeze(0).unsqueeze(0)
    return window.expand(channel, 1, window_size, window_size).contiguous()


def ssim(img1, img2, window_size=5):
    channel = img1.size(-3)
    window = gaussian_window(window_size, channel).type_as(img1)
    blur = lambda x: F.conv2d(
        x[None], window, padding=window_size // 2, groups=channel
    )[0]
    mu1, mu2 = blur(img1), blur(img2)
    s1, s2, s12 = (
        blur(img1 * img1) - mu1.pow(2),
        blur(img2 * img2) - mu2.pow(2),
        blur(img1 * img2) - mu1 * mu2,
    )
    return (
        ((2 * mu1 * mu2 + 0.01**2) * (2 * s12 + 0.03**2))
        / ((mu1**2 + mu2**2 + 0.01**2) * (s1 + s2 + 0.03**2))
    ).mean()


def psnr(img1, img2):
    mse = ((img1 - img2) ** 2).view(img1.shape[0], -1).mean(1, keepdim=True)
    return 20 * torch.log10(1.0 / torch.sqrt(mse))


def train(steps):
    size, losses = 8, []
    model = GaussianModel(
        0.5 * normal(10, 3), np.random.default_rng(4).random((10, 3)).astype(np.float32)
    )
    target = torch.sigmoid(
        F.interpolate(
            torch.from_numpy(normal(1, 3, 3, 3, seed=9)),
            size=(size, size),
            mode="bilinear",
            align_corners=True,
        )
    )[0].to(device)
    ema = 0.0
    for iteration in range(1, steps + 1):
        model.update_learning_rate(iteration)
        screen = (
            torch.zeros_like(
                model._xyz, dtype=model._xyz.dtype, requires_grad=True, device=device
            )
            + 0
        )
        try:
            screen.retain_grad()
        except RuntimeError:
            pass
        image, radii, packed = render(model, size, screen)
        l1 = torch.abs(image - target).mean()
        loss = (
            0.8 * l1 + 0.2 * (1.0 - ssim(image, target)) + 1e-3 * packed.pow(2).mean()
        )
        loss.backward()
        with torch.no_grad():
            ema = 0.4 * loss.item() + 0.6 * ema
            losses.append(loss.item())
            visibility = radii > 0
            model.max_radii2D[visibility] = torch.max(
                model.max_radii2D[visibility], radii[visibility]
            )
            model.add_densification_stats(screen.grad, visibility)
            if iteration % 6 == 0:
                grads = model.xyz_gradient_accum / model.denom
                grads[grads.isnan()] = 0.0
                threshold = grads.median().item()
                model.densify_and_clone(grads, threshold)
                if iteration == 12:
                    model.densify_and_split(grads, threshold)
                mask = (model.opacity_activation(model._opacity) < 0.2).squeeze()
                mask[:3] = False
                model.prune_points(mask)
            if iteration == 14:
                model.reset_opacity()
            model.optimizer.step()
            model.optimizer.zero_grad(set_to_none=True)
    losses += [ema, psnr(image, target).mean().item(), float(model._xyz.shape[0])]
    return losses
