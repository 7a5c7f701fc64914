// Where the loads of an invocation of matmul/gemm_simt.comp lie within a tile

// Line, and vector in it, of a load of this invocation within a tile. All of its
// vectors have the same index in their lines, so that one index serves them all.
uvec2 place(uint i, uint along_k, uint block) {
    uint vectors = along_k != 0 ? BLOCK_K / 4 : block / 4;
    uint number = gl_LocalInvocationIndex % THREADS;
    return uvec2(number / vectors + i * (THREADS / vectors), number % vectors);
}

// With UNALIGNED neighbours read neighbours, so that a subgroup reads few lines at once:
// where the first element that this invocation reads lies in a tile, and by how much
// further the others, in lines and along them.
uvec2 first_place(uint length) {
    uint number = gl_LocalInvocationIndex % THREADS;
    return uvec2(number / length, number % length);
}

uvec2 further(uint i, uint length) {
    uint turns = max(length / THREADS, 1);  // that a line takes
    return uvec2(i / turns * (THREADS * turns / length), i % turns * THREADS);
}

// K index, within its step, of the first element of a vector, and of such an element.
uint line_depth(uint i, uint along_k, uint block) {
    uvec2 at = place(i, along_k, block);
    return along_k != 0 ? at.y * WIDTH : at.x;
}

uint depth_of(uint i, uint along_k, uint length) {
    uvec2 from = first_place(length), more = further(i, length);
    return along_k != 0 ? from.y + more.y : from.x + more.x;
}
