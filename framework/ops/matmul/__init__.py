"""Matrix multiplication."""
