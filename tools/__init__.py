"""Developer tools: binding generator, SPIR-V inspection, benchmarks, checks."""
