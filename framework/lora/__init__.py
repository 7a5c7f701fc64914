"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685) of layers with frozen weights.

Examples
--------
>>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
>>> fw.lora.add(model, rank=4, alpha=8)
('0', '2')
>>> optimizer = fw.optim.AdamW(fw.lora.parameters(model), 1e-3)
>>> sum(each.numel() for each in fw.lora.parameters(model))
552
"""

from .adapters import add as add
from .adapters import merge as merge
from .adapters import parameters as parameters
from .adapters import remove as remove
from .adapters import unmerge as unmerge
from .files import load as load
from .files import save as save
from .layers import LoRAEmbedding as LoRAEmbedding
from .layers import LoRALayer as LoRALayer
from .layers import LoRALinear as LoRALinear

__all__ = [
    "LoRAEmbedding",
    "LoRALayer",
    "LoRALinear",
    "add",
    "load",
    "merge",
    "parameters",
    "remove",
    "save",
    "unmerge",
]
