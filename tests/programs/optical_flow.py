"""RAFT-like optical flow: correlation pyramids, ConvGRU, convex upsampling; census and smoothness losses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def coords_grid(batch, ht, wd, device):
    coords = torch.meshgrid(
        torch.arange(ht, device=device), torch.arange(wd, device=device), indexing="ij"
    )
    coords = torch.stack(coords[::-1], dim=0).float()
    return coords[None].repeat(batch, 1, 1, 1)


def bilinear_sampler(img, coords, mode="bilinear", mask=False):
    H, W = img.shape[-2:]
    xgrid, ygrid = coords.split([1, 1], dim=-1)
    xgrid = 2 * xgrid / (W - 1) - 1
    ygrid = 2 * ygrid / (H - 1) - 1
    grid = torch.cat([xgrid, ygrid], dim=-1)
    img = F.grid_sample(img, grid, mode=mode, align_corners=True)
    if mask:
        mask = (xgrid > -1) & (ygrid > -1) & (xgrid < 1) & (ygrid < 1)
        return img, mask.float()
    return img


class CorrBlock:
    def __init__(self, fmap1, fmap2, num_levels=2, radius=1):
        self.num_levels, self.radius, self.corr_pyramid = num_levels, radius, []
        corr = CorrBlock.corr(fmap1, fmap2)
        batch, h1, w1, dim, h2, w2 = corr.shape
        corr = corr.reshape(batch * h1 * w1, dim, h2, w2)
        self.corr_pyramid.append(corr)
        for _ in range(self.num_levels - 1):
            corr = F.avg_pool2d(corr, 2, stride=2)
            self.corr_pyramid.append(corr)

    def __call__(self, coords):
        r = self.radius
        coords = coords.permute(0, 2, 3, 1)
        batch, h1, w1, _ = coords.shape
        out_pyramid = []
        for i in range(self.num_levels):
            corr = self.corr_pyramid[i]
            dx = torch.linspace(-r, r, 2 * r + 1, device=coords.device)
            dy = torch.linspace(-r, r, 2 * r + 1, device=coords.device)
            delta = torch.stack(torch.meshgrid(dy, dx, indexing="ij"), axis=-1)
            centroid_lvl = coords.reshape(batch * h1 * w1, 1, 1, 2) / 2**i
            delta_lvl = delta.view(1, 2 * r + 1, 2 * r + 1, 2)
            corr = bilinear_sampler(corr, centroid_lvl + delta_lvl)
            out_pyramid.append(corr.view(batch, h1, w1, -1))
        return torch.cat(out_pyramid, dim=-1).permute(0, 3, 1, 2).contiguous().float()

    @staticmethod
    def corr(fmap1, fmap2):
        batch, dim, ht, wd = fmap1.shape
        fmap1, fmap2 = fmap1.view(batch, dim, ht * wd), fmap2.view(batch, dim, ht * wd)
        corr = torch.matmul(fmap1.transpose(1, 2), fmap2).view(batch, ht, wd, 1, ht, wd)
        return corr / torch.sqrt(torch.tensor(dim).float())


class ResidualBlock(nn.Module):
    def __init__(self, in_planes, planes, norm_fn="group", stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(
            in_planes, planes, kernel_size=3, padding=1, stride=stride
        )
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        if norm_fn == "group":
            self.norm1, self.norm2 = nn.GroupNorm(2, planes), nn.GroupNorm(2, planes)
        elif norm_fn == "instance":
            self.norm1, self.norm2 = (
                nn.InstanceNorm2d(planes),
                nn.InstanceNorm2d(planes),
            )
        self.downsample = (
            None
            if stride == 1
            else nn.Sequential(
                nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride)
            )
        )

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        if self.downsample is not None:
            x = self.downsample(x)
        return self.relu(x + y)


class Encoder(nn.Module):
    def __init__(self, output_dim, norm_fn):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2, padding=3)
        self.layer = ResidualBlock(8, 8, norm_fn, stride=2)
        self.conv2 = nn.Conv2d(8, output_dim, kernel_size=1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.InstanceNorm2d, nn.GroupNorm)):
                if m.weight is not None:
                    nn.init.constant_(m.weight, 1)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)

    def forward(self, x):
        is_list = isinstance(x, tuple) or isinstance(x, list)
        if is_list:
            batch_dim = x[0].shape[0]
            x = torch.cat(x, dim=0)
        x = self.conv2(self.layer(F.relu(self.conv1(x), inplace=True)))
        if is_list:
            x = torch.split(x, [batch_dim, batch_dim], dim=0)
        return x


class SepConvGRU(nn.Module):
    def __init__(self, hidden_dim, input_dim):
        super().__init__()
        both = hidden_dim + input_dim
        for k, size, pad in ((1, (1, 5), (0, 2)), (2, (5, 1), (2, 0))):
            for gate in "zrq":
                self.add_module(
                    f"conv{gate}{k}", nn.Conv2d(both, hidden_dim, size, padding=pad)
                )

    def forward(self, h, x):
        for k in (1, 2):
            hx = torch.cat([h, x], dim=1)
            z = torch.sigmoid(getattr(self, f"convz{k}")(hx))
            r = torch.sigmoid(getattr(self, f"convr{k}")(hx))
            q = torch.tanh(getattr(self, f"convq{k}")(torch.cat([r * h, x], dim=1)))
            h = (1 - z) * h + z * q
        return h


class UpdateBlock(nn.Module):
    def __init__(self, hidden_dim, planes):
        super().__init__()
        self.convc1 = nn.Conv2d(planes, 8, 1)
        self.convf1 = nn.Conv2d(2, 8, 7, padding=3)
        self.conv = nn.Conv2d(16, 8 - 2, 3, padding=1)
        self.gru = SepConvGRU(hidden_dim, 8 + hidden_dim)
        self.flow_head = nn.Sequential(
            nn.Conv2d(hidden_dim, 8, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 2, 3, padding=1),
        )
        self.mask = nn.Sequential(
            nn.Conv2d(hidden_dim, 8, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 16 * 9, 1, padding=0),
        )

    def forward(self, net, inp, corr, flow):
        cor, flo = F.relu(self.convc1(corr)), F.relu(self.convf1(flow))
        out = F.relu(self.conv(torch.cat([cor, flo], dim=1)))
        motion = torch.cat([out, flow], dim=1)
        net = self.gru(net, torch.cat([inp, motion], dim=1))
        return net, 0.25 * self.mask(net), self.flow_head(net)


class RAFT(nn.Module):
    def __init__(self, hdim=8, cdim=8):
        super().__init__()
        self.hdim, self.cdim = hdim, cdim
        self.fnet = Encoder(8, "instance")
        self.cnet = Encoder(hdim + cdim, "group")
        self.update_block = UpdateBlock(hdim, 2 * 9)

    def upsample_flow(self, flow, mask):
        N, _, H, W = flow.shape
        mask = torch.softmax(mask.view(N, 1, 9, 4, 4, H, W), dim=2)
        up_flow = F.unfold(4 * flow, [3, 3], padding=1).view(N, 2, 9, 1, 1, H, W)
        up_flow = torch.sum(mask * up_flow, dim=2).permute(0, 1, 4, 2, 5, 3)
        return up_flow.reshape(N, 2, 4 * H, 4 * W)

    def forward(self, image1, image2, iters=3):
        image1 = 2 * (image1 / 255.0) - 1.0
        image2 = 2 * (image2 / 255.0) - 1.0
        fmap1, fmap2 = self.fnet([image1.contiguous(), image2.contiguous()])
        corr_fn = CorrBlock(fmap1.float(), fmap2.float())
        net, inp = torch.split(self.cnet(image1), [self.hdim, self.cdim], dim=1)
        net, inp = torch.tanh(net), torch.relu(inp)
        N, _, H, W = image1.shape
        coords0 = coords_grid(N, H // 4, W // 4, device=image1.device)
        coords1 = coords_grid(N, H // 4, W // 4, device=image1.device)
        predictions = []
        for _ in range(iters):
            coords1 = coords1.detach()
            corr = corr_fn(coords1)
            flow = coords1 - coords0
            with torch.autocast(device_type="cpu", enabled=False):
                net, up_mask, delta_flow = self.update_block(net, inp, corr, flow)
            coords1 = coords1 + delta_flow
            predictions.append(self.upsample_flow(coords1 - coords0, up_mask))
        return predictions


def sequence_loss(flow_preds, flow_gt, valid, gamma=0.8, max_flow=400):
    n, flow_loss = len(flow_preds), 0.0
    mag = torch.sum(flow_gt**2, dim=1).sqrt()
    valid = (valid >= 0.5) & (mag < max_flow)
    for i in range(n):
        i_loss = (flow_preds[i] - flow_gt).abs()
        flow_loss += gamma ** (n - i - 1) * (valid[:, None] * i_loss).mean()
    epe = torch.sum((flow_preds[-1] - flow_gt) ** 2, dim=1).sqrt()
    epe = epe.view(-1)[valid.view(-1)]
    return flow_loss, {"epe": epe.mean().item(), "1px": (epe < 1).float().mean().item()}


def census(img, patch=3):
    gray = 0.2989 * img[:, 0:1] + 0.5870 * img[:, 1:2] + 0.1140 * img[:, 2:3]
    weights = torch.eye(patch * patch).reshape((patch * patch, 1, patch, patch)).to(img)
    d = F.conv2d(gray, weights, padding="same") - gray
    return d / torch.sqrt(0.81 + torch.pow(d, 2))


def photometric(im1, im2, flow):
    B, _, H, W = im1.shape
    warped, mask = bilinear_sampler(
        im2, (coords_grid(B, H, W, im1.device) + flow).permute(0, 2, 3, 1), mask=True
    )
    dist = torch.square(census(im1 / 255) - census(warped / 255))
    dist = (dist / (0.1 + dist)).mean(1, keepdim=True)
    border = F.pad(torch.ones(B, 1, H - 2, W - 2, device=im1.device), [1] * 4)
    weight = border * mask.permute(0, 3, 1, 2)
    return (dist * weight).sum() / (weight.sum() + 1e-6)


def smoothness(flow, image, alpha=10):
    dx, dy = (
        (lambda t: t[..., 1:] - t[..., :-1]),
        (lambda t: t[..., 1:, :] - t[..., :-1, :]),
    )
    wx = torch.exp(-torch.mean(torch.abs(dx(image / 255)), 1, keepdim=True) * alpha)
    wy = torch.exp(-torch.mean(torch.abs(dy(image / 255)), 1, keepdim=True) * alpha)
    return ((wx * dx(flow).abs()).mean() + (wy * dy(flow).abs()).mean()) / 2.0


class InputPadder:
    def __init__(self, dims):
        self.ht, self.wd = dims[-2:]
        pad_ht = (((self.ht // 8) + 1) * 8 - self.ht) % 8
        pad_wd = (((self.wd // 8) + 1) * 8 - self.wd) % 8
        self._pad = [
            pad_wd // 2,
            pad_wd - pad_wd // 2,
            pad_ht // 2,
            pad_ht - pad_ht // 2,
        ]

    def pad(self, *inputs):
        return [F.pad(x, self._pad, mode="replicate") for x in inputs]

    def unpad(self, x):
        ht, wd = x.shape[-2:]
        c = [self._pad[2], ht - self._pad[3], self._pad[0], wd - self._pad[1]]
        return x[..., c[0] : c[1], c[2] : c[3]]


def train(steps):
    model = seeded(RAFT()).to(device)
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=4e-4, weight_decay=1e-4, eps=1e-6
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        4e-4,
        steps + 5,
        pct_start=0.2,
        cycle_momentum=False,
        anneal_strategy="linear",
    )
    base = F.interpolate(
        torch.from_numpy(normal(1, 3, 6, 6)),
        size=(15, 22),
        mode="bicubic",
        align_corners=False,
    )
    image1 = ((base.tanh() + 1) * 127.5).round().to(device)
    image2 = torch.roll(image1, shifts=(0, 1), dims=(2, 3))
    padder = InputPadder(image1.shape)
    image1, image2 = padder.pad(image1, image2)
    gt = torch.zeros(1, 2, 15, 22, device=device)
    gt[:, 0] += 1.0
    valid = torch.ones(1, 15, 22, device=device)
    valid[:, :, -2:] = 0
    losses, seen = [], {}
    for _ in range(steps):
        optimizer.zero_grad()
        flows = model(image1, image2)
        loss, seen = sequence_loss([padder.unpad(f) for f in flows], gt, valid)
        loss = (
            loss
            + 0.1 * photometric(image1, image2, flows[-1])
            + 0.05 * smoothness(flows[-1], image1)
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return [*losses, seen["epe"], seen["1px"], scheduler.get_last_lr()[0]]
