"""Element-wise operations."""
