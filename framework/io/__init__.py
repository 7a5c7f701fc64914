"""File formats of tensors."""
