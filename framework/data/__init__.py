"""Datasets and data loaders."""

from .collate import collate
from .dataloader import DataLoader
from .dataset import Dataset, Subset, TensorDataset, random_split

__all__ = [
    "DataLoader",
    "Dataset",
    "Subset",
    "TensorDataset",
    "collate",
    "random_split",
]
