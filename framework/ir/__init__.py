"""The lazy graph of recorded operations, and the kernel calls it is lowered to."""
