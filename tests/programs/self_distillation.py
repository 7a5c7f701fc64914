"""Self-distillation with a momentum teacher and centering."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Head(nn.Module):
    def __init__(self, in_dim=12, out_dim=8, hidden=16, bottleneck=6):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(in_dim, hidden), nn.GELU(), nn.Linear(hidden, bottleneck)
        )
        self.last_layer = nn.utils.weight_norm(
            nn.Linear(bottleneck, out_dim, bias=False)
        )
        self.last_layer.weight_g.data.fill_(1)
        self.last_layer.weight_g.requires_grad = False

    def forward(self, x):
        x = nn.functional.normalize(self.mlp(x), dim=-1, p=2)
        return self.last_layer(x)


class DistillationLoss(nn.Module):
    def __init__(self, out_dim, student_temp=0.1, center_momentum=0.9):
        super().__init__()
        self.student_temp = student_temp
        self.center_momentum = center_momentum
        self.register_buffer("center", torch.zeros(1, out_dim))

    def forward(self, student_output, teacher_output, teacher_temp):
        student_out = (student_output / self.student_temp).chunk(2)
        teacher_out = F.softmax((teacher_output - self.center) / teacher_temp, dim=-1)
        teacher_out = teacher_out.detach().chunk(2)
        total_loss, n_loss_terms = 0, 0
        for iq, q in enumerate(teacher_out):
            for v in range(len(student_out)):
                if v == iq:
                    continue
                loss = torch.sum(-q * F.log_softmax(student_out[v], dim=-1), dim=-1)
                total_loss += loss.mean()
                n_loss_terms += 1
        total_loss /= n_loss_terms
        self.update_center(teacher_output)
        return total_loss

    @torch.no_grad()
    def update_center(self, teacher_output):
        batch_center = torch.sum(teacher_output, dim=0, keepdim=True)
        batch_center = batch_center / len(teacher_output)
        momentum = self.center_momentum
        self.center = self.center * momentum + batch_center * (1 - momentum)


def train(steps):
    views = torch.from_numpy(normal(2, 10, 12)).to(device)
    student = seeded(Head())
    student.last_layer.weight_g.data.fill_(1)
    teacher = Head()
    teacher.load_state_dict(copy.deepcopy(student.state_dict()))
    student, teacher = student.to(device), teacher.to(device)
    for p in teacher.parameters():
        p.requires_grad = False
    criterion = DistillationLoss(8).to(device)
    params = [p for p in student.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - step / steps)
        both = torch.cat([views[0], views[1]])
        loss = criterion(student(both), teacher(both), teacher_temp=0.07)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            m = 0.99
            for q, k in zip(student.parameters(), teacher.parameters()):
                k.data.mul_(m).add_((1 - m) * q.detach().data)
        losses.append(loss.item())
    return [*losses, criterion.center.abs().sum().item()]
