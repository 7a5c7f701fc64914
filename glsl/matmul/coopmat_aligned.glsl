// Loads of matmul/gemm_coopmat.comp: whole vectors that are stored as they come

layout(constant_id = 18) const uint L2_PREFETCHES = 0;

const uint UNIT = WIDTH;  // elements that strides count
const uint STEPS_IN_REGISTERS = 1;

#define REGISTERS uvec4 next_a[A_LOADS], next_b[B_LOADS];
#define ALIGN_OPERANDS()
#define FETCHED(x, i) next_##x[i]

#define READ_FIRST_STEP()                                                              \
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i) {                                    \
        bool in_k_tail = K_TAIL != 0 && A_FIRST(i) < skipped;                          \
        next_a[i] = in_k_tail ? uvec4(0) : a.at[a_from + i * a_step];                  \
    }                                                                                  \
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {                                    \
        bool in_k_tail = K_TAIL != 0 && B_FIRST(i) < skipped;                          \
        next_b[i] = in_k_tail ? uvec4(0) : b.at[B_AT(0, i)];                           \
    }

#define PREFETCH_NEXT(tile)                                                            \
    {                                                                                  \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[i] = a.at[a_from + (tile) * a_next + i * a_step];                   \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i) next_b[i] = b.at[B_AT(tile, i)]; \
    }

// L2 prefetch of later steps of b meanwhile: workgroups share the reads, each of which
// brings 32 bytes into the cache, and drop the values in the padding.
#define PREFETCH_L2()                                                                  \
    if (L2_PREFETCHES != 0) {                                                          \
        uint lines = B_ALONG_K != 0 ? columns : push.total;                            \
        uint end = (lines - 1) * b_stride + (B_ALONG_K != 0 ? push.total : columns) / WIDTH;\
        uint everyone = gl_NumWorkGroups.x * gl_NumWorkGroups.y * THREADS;             \
        uint prefetched[L2_PREFETCHES + 1], any = 0;                                   \
        [[unroll]] for (uint i = 0; i < L2_PREFETCHES; ++i) {                          \
            uint at = linear_workgroup() * THREADS + thread + i * everyone;            \
            prefetched[i] = b.at[min(2 * at, end - 1)].x;                              \
        }                                                                              \
        [[unroll]] for (uint i = 0; i < L2_PREFETCHES; ++i) any |= prefetched[i];      \
        tiles[thread % A_LINES * A_PITCH + A_VECTORS][thread / A_LINES % 4] = any;     \
    }
