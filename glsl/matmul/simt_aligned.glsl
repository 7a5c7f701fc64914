// Loads of matmul/gemm_simt.comp: whole vectors, whose lines go to shared memory as
// they are or, along K, turned

const uint UNIT = WIDTH;  // elements that strides count

// Line, and vector in it, of a load of this invocation within a tile. All of its
// vectors have the same index in their lines, so that one index serves them all.
uvec2 place(uint i, uint along_k, uint block) {
    uint vectors = along_k != 0 ? BLOCK_K / 4 : block / 4;
    uint number = gl_LocalInvocationIndex % THREADS;
    return uvec2(number / vectors + i * (THREADS / vectors), number % vectors);
}

// K index, within its step, of the first element of a vector.
uint line_depth(uint i, uint along_k, uint block) {
    uvec2 at = place(i, along_k, block);
    return along_k != 0 ? at.y * WIDTH : at.x;
}

#define A_PLACE place(0, A_ALONG_K, BLOCK_M)
#define B_PLACE place(0, B_ALONG_K, BLOCK_N)

#define FETCH(stage, number, first)                                                    \
    {                                                                                  \
        uint step = (number) * K_SLICES + slice;                                       \
        bool there = UNEVEN_SLICES == 0 || step < steps;                               \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[NEXT(stage)][i] =                                                   \
                there && !(first && IN_K_TAIL(step, line_depth(i, A_ALONG_K, BLOCK_M)))\
                ? push.a.at[a_from + i * A_LINES * a_stride + A_STEP(step)]            \
                : VECTOR(0);                                                           \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)                                  \
            next_b[NEXT(stage)][i] =                                                   \
                there && !(first && IN_K_TAIL(step, line_depth(i, B_ALONG_K, BLOCK_N)))\
                ? push.b.at[B_AT(step, i)]                                             \
                : VECTOR(0);                                                           \
    }

#define STORE_STAGE(stage)                                                             \
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i) {                                    \
        uvec2 to = place(i, A_ALONG_K, BLOCK_M);                                       \
        VECTOR next = next_a[NEXT(stage)][i];                                          \
        if (A_ALONG_K != 0) {                                                          \
            [[unroll]] for (uint e = 0; e < 4; ++e)                                    \
                tiles[A_AT(stage, to.y * 4 + e, to.x / 4)][to.x % 4] = next[e];        \
        } else {                                                                       \
            tiles[A_AT(stage, to.x, to.y)] = next;                                     \
        }                                                                              \
    }                                                                                  \
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {                                    \
        uvec2 to = place(i, B_ALONG_K, BLOCK_N);                                       \
        VECTOR next = next_b[NEXT(stage)][i];                                          \
        if (B_ALONG_K != 0) {                                                          \
            [[unroll]] for (uint e = 0; e < 4; ++e)                                    \
                tiles[B_IN(stage, to.y * 4 + e, to.x / 4)][to.x % 4] = next[e];        \
        } else {                                                                       \
            tiles[B_IN(stage, to.x, to.y)] = next;                                     \
        }                                                                              \
    }
