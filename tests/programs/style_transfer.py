"""Neural style (Gram) by LBFGS on pixels, ESPCN super-resolution with pixel shuffle, PSNR/SSIM, TV loss."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super(ContentLoss, self).__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super(StyleLoss, self).__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = (
            mean.clone().detach().view(-1, 1, 1),
            std.clone().detach().view(-1, 1, 1),
        )

    def forward(self, img):
        return (img - self.mean) / self.std


class ESPCN(nn.Module):
    def __init__(self, r=2):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv2d(1, 8, 5, 1, 2),
            nn.Conv2d(8, 8, 3, 1, 1),
            nn.Conv2d(8, r * r, 3, 1, 1),
        )
        self.pixel_shuffle = nn.PixelShuffle(r)

    def forward(self, x):
        return torch.sigmoid(
            self.pixel_shuffle(
                self.conv3(torch.tanh(self.conv2(torch.tanh(self.conv1(x)))))
            )
        )


def gaussian(window_size, sigma):
    g = torch.Tensor(
        [
            math.exp(-((x - window_size // 2) ** 2) / float(2 * sigma**2))
            for x in range(window_size)
        ]
    )
    return g / g.sum()


def ssim(a, b, ws=5):
    w = gaussian(ws, 1.5).unsqueeze(1)
    w = w.mm(w.t()).float().unsqueeze(0).unsqueeze(0).to(a.device).type_as(a)
    mu1, mu2 = F.conv2d(a, w, padding=ws // 2), F.conv2d(b, w, padding=ws // 2)
    s1 = F.conv2d(a * a, w, padding=ws // 2) - mu1.pow(2)
    s2 = F.conv2d(b * b, w, padding=ws // 2) - mu2.pow(2)
    s12 = F.conv2d(a * b, w, padding=ws // 2) - mu1 * mu2
    return (
        ((2 * mu1 * mu2 + 1e-4) * (2 * s12 + 9e-4))
        / ((mu1.pow(2) + mu2.pow(2) + 1e-4) * (s1 + s2 + 9e-4))
    ).mean()


def tv(img):
    return (img[:, :, 1:, :] - img[:, :, :-1, :]).abs().mean() + torch.pow(
        img[:, :, :, 1:] - img[:, :, :, :-1], 2
    ).mean()


def train(steps):
    content, style = (
        torch.sigmoid(torch.from_numpy(normal(1, 3, 12, 12, seed=s))).to(device)
        for s in (1, 2)
    )
    cnn = (
        seeded(
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(8, 8, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(8, 8, 3, padding=1),
            )
        )
        .to(device)
        .eval()
    )
    model = nn.Sequential(
        Normalization(
            torch.tensor([0.485, 0.456, 0.406]).to(device),
            torch.tensor([0.229, 0.224, 0.225]).to(device),
        )
    )
    style_losses, content_losses, i = [], [], 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = f"conv_{i}"
        elif isinstance(layer, nn.ReLU):
            name = f"relu_{i}"
            layer = nn.ReLU(inplace=False)
        elif isinstance(layer, nn.MaxPool2d):
            name = f"pool_{i}"
        else:
            raise RuntimeError(layer.__class__.__name__)
        model.add_module(name, layer)
        if name == "conv_2":
            c = ContentLoss(model(content).detach())
            model.add_module("content_loss", c)
            content_losses.append(c)
        if name.startswith("conv"):
            s = StyleLoss(model(style).detach())
            model.add_module(f"style_loss_{i}", s)
            style_losses.append(s)
    input_img = content.clone()
    input_img.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer, run, losses = optim.LBFGS([input_img], max_iter=4), [0], []
    while run[0] < 12:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = sum(sl.loss for sl in style_losses) * 1000
            content_score = sum(cl.loss for cl in content_losses)
            loss = style_score + content_score + 0.1 * tv(input_img)
            loss.backward()
            run[0] += 1
            losses.append(loss.item())
            return style_score + content_score

        optimizer.step(closure)
    losses = losses[:12]
    hr = torch.sigmoid(torch.from_numpy(normal(4, 1, 16, 16))).to(device)
    lr_img = F.interpolate(
        hr, scale_factor=0.5, mode="bicubic", align_corners=False, antialias=False
    )
    sr = seeded(ESPCN(), 3).to(device)
    opt = optim.Adam(
        [
            {"params": sr.conv1.parameters()},
            {"params": sr.conv2.parameters()},
            {"params": sr.conv3.parameters(), "lr": 1e-3},
        ],
        lr=2e-3,
    )
    for _ in range(steps // 2):
        opt.zero_grad()
        out = sr(lr_img)
        loss = F.l1_loss(out, hr) + 0.1 * (1 - ssim(out, hr))
        loss.backward()
        opt.step()
        losses.append(loss.item())
    psnr = 10 * torch.log10(1 / F.mse_loss(out.clamp(0.0, 1.0), hr))
    assert torch.equal(F.pixel_shuffle(F.pixel_unshuffle(hr, 2), 2), hr)
    return losses + [psnr.item()]
