"""Device memory: blocks, the pool, buffers, staging."""
