"""Forward gradients, dual numbers, linearizations, ensembles on the meta device."""

import torch
from torch import nn
from torch.nn import functional as F
import torch.autograd.forward_ad as fwAD
from torch.func import (
    jvp,
    vjp,
    linearize,
    functional_call,
    grad_and_value,
    vmap,
    jacfwd,
    stack_module_state,
)
from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 6)
        self.bn = nn.BatchNorm1d(6, track_running_stats=False)
        self.l2 = nn.Linear(6, 2)

    def forward(self, x):
        return self.l2(torch.tanh(self.bn(self.l1(x))))


def train(steps):
    model = seeded(Net()).to(device)
    x = torch.from_numpy(normal(8, 4)).to(device)
    y = torch.from_numpy(normal(8, 2, seed=3)).to(device)
    params = {k: v.detach() for k, v in model.named_parameters()}
    buffers = {k: v.detach().clone() for k, v in model.named_buffers()}
    res = []
    for step in range(steps):

        def loss_fn(p):
            out = functional_call(model, (p, buffers), (x,))
            return F.mse_loss(out, y)

        # forward gradient descent
        dirs = {
            k: torch.from_numpy(normal(*v.shape, seed=step * 7 + i)).to(device)
            for i, (k, v) in enumerate(params.items())
        }
        loss, slope = jvp(loss_fn, (params,), (dirs,))
        grads, loss2 = grad_and_value(loss_fn)(params)
        dot = sum((grads[k] * dirs[k]).sum() for k in grads)
        params = {k: v - 0.05 * grads[k] for k, v in params.items()}
        res += [loss.item(), slope.item(), dot.item(), loss2.item()]
    with fwAD.dual_level():
        p = params["l1.weight"]
        dual = fwAD.make_dual(p, torch.ones_like(p))
        out = (x @ dual.t()).sin().sum()
        primal, tangent = fwAD.unpack_dual(out)
        res += [primal.item(), tangent.item()]
    out, fn = vjp(lambda w: torch.softmax(x @ w.t(), -1), params["l1.weight"])
    (g,) = fn(torch.ones_like(out) * out)
    res.append(g.norm().item())
    J = jacfwd(lambda v: torch.stack([v.prod(), v.norm(), torch.logsumexp(v, 0)]))(x[0])
    res += J.flatten().tolist()
    models = [seeded(Net(), k).to(device).eval() for k in range(3)]
    p, b = stack_module_state(models)
    base = Net().to("meta")

    def f(p, b, x):
        return functional_call(base, (p, b), (x,))

    base.eval()
    outs = vmap(f, in_dims=(0, 0, None))(p, b, x)
    res += [outs.sum().item(), outs.var(0).mean().item()]
    per = vmap(lambda p1, b1: functional_call(base, (p1, b1), (x[:2],)).sum())(p, b)
    res += per.tolist()
    o, lin = linearize(lambda t: (t**3).sum(-1), x)
    res.append(lin(torch.ones_like(x)).sum().item())
    return res
