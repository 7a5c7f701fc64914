"""Datasets, and loaders that make batches of them."""

from .collate import collate
from .dataset import Dataset, Subset, TensorDataset, random_split
from .loader import DataLoader

__all__ = [
    "DataLoader",
    "Dataset",
    "Subset",
    "TensorDataset",
    "collate",
    "random_split",
]
