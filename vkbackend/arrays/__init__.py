"""`CommandBatch`: operations on arrays, with one submission."""
