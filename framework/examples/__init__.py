"""Programs that show the library at work; run them with `python -m`."""
