"""Lazy graph of recorded nodes, and the kernel calls it is lowered to."""
