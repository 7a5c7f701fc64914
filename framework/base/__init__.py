"""Base layer: errors, dtypes, shapes, devices and modes."""
