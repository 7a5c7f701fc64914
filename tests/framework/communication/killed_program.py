"""A rank that kills itself after a while, in a program that communicates."""

import os
import signal
import sys
import threading

import vkbackend.framework as fw
from vkbackend.framework import distributed as dist

seconds, victim = float(sys.argv[1]), int(sys.argv[2])
group = dist.init()
group.barrier()
if group.rank == victim:
    kill = (os.getpid(), signal.SIGKILL)
    threading.Timer(seconds, os.kill, kill).start()
x = fw.ones(50_000, device=group.device)
step = fw.jit(lambda x: group.all_sum(x * 0.5))
try:
    while True:
        x = step(x)
        group.all_gather(x[:10])
        group.barrier()
        other = group.rank ^ 1
        if other < group.size:
            if group.rank & 1:
                group.send(x, other)
                group.recv_like(x, other)
            else:
                group.recv_like(x, other)
                group.send(x, other)
except dist.DistributedError as error:
    print(f"told: {error}", flush=True)
    sys.exit(3)
