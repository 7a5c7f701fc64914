"""Communication among the processes of one computation, which mpirun starts together.

`world` says which process this is. `transport` moves bytes: through pages that the
processes of one machine share (`shared_pages`, `host_transport`), from card to card by
CUDA's driver (`descriptors`, `peer_memory`, `cuda_transport`), or by MPI
(`mpi_transport`). `progress` runs what waits for others, and notices where that cannot
end. `group` is what programs use: collectives on tensors.
"""
