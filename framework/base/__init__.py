"""What every layer above stands on: errors, dtypes, shapes, devices, modes."""
