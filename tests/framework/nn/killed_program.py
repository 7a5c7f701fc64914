"""A rank kills itself while it trains: killed_program.py KIND SECONDS VICTIM."""

import os
import signal
import sys
import threading

import vkbackend.framework as fw
from tests.framework.nn.parallel_program import batch, loss_of, make, stages
from vkbackend.framework import distributed as dist
from vkbackend.framework import nn

kind, seconds, victim = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
group = dist.init()
group.barrier()
if group.rank == victim:
    kill = (os.getpid(), signal.SIGKILL)
    threading.Timer(seconds, os.kill, kill).start()

try:
    if kind == "pipeline":
        model = nn.Pipeline(
            stages(group.device), 3, group, loss=nn.functional.cross_entropy
        )
    else:
        model = nn.tensor_parallel(make("gpt", 0).to(group.device), group)
    optimizer = fw.optim.SGD(model.parameters(), lr=0.01)

    def step(x: fw.Tensor, y: fw.Tensor) -> None:
        optimizer.zero_grad()
        if isinstance(model, nn.Pipeline):
            model.step(x, y)
            model.clip_grad_norm_(1.0)
        else:
            loss_of(model, x, y).backward()
        optimizer.step()

    jitted = fw.jit(step)
    if kind == "pipeline":
        pair = [fw.arange(6, device=group.device) % 5 for _ in range(2)]
    else:
        pair = [fw.tensor(each, device=group.device) for each in batch("gpt", 0, 2)]
    while True:
        jitted(*pair)
        step(*pair)
except dist.DistributedError as error:
    print(f"told: {error}", flush=True)
    raise
