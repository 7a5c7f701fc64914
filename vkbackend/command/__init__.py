"""Command buffers recorded, submitted and replayed."""
