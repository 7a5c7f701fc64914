"""Random distributions and dropout."""
