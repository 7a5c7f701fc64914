// Loads of matmul/gemm_coopmat_unaligned.comp: each vector from the two that cover it,
// which are merged a step later; see lib/unaligned_load.glsl

const uint UNIT = 1;  // elements that strides count
const uint STEPS_IN_REGISTERS = 2;

// Converts an element offset from an unaligned address to the index of an aligned
// vector; returns the bytes into it.
uint whole(inout Vectors memory, inout uint at) {
    uvec2 address = uvec2(memory);
    uint skew = address.x % 16;
    memory = Vectors(uvec2(address.x - skew, address.y));
    int start = int(at) * 2 + int(skew);
    at = uint(start >> 4);
    return uint(start & 15);
}

// The loads, the vectors after those, and merged values, while more are loaded.
#define REGISTERS                                                                      \
    uvec4 next_a[A_LOADS], next_b[B_LOADS];                                            \
    uvec4 beyond_a[A_LOADS], beyond_b[B_LOADS];                                        \
    uvec4 ready_a[A_LOADS], ready_b[B_LOADS];
#define ALIGN_OPERANDS()                                                               \
    uint a_shift = whole(a, a_from);                                                   \
    uint b_shift = whole(b, b_from);
#define PREFETCH_L2()
#define AFTER(x) (x##_shift != 0 ? 1 : 0)
#define FETCHED(x, i) ready_##x[i]
#define READY(x, i) ready_##x[i] = shifted(next_##x[i], beyond_##x[i], x##_shift);
// The K tail is in the first step, whose missing elements would lie before the operand.
#define READ_FIRST(x, from)                                                            \
    {                                                                                  \
        next_##x[i] = x.at[max(int(from), 0)];                                         \
        beyond_##x[i] = x.at[max(int(from) + AFTER(x), 0)];                            \
    }
#define ZERO_K_TAIL(x, along_k, at)                                                      \
    {                                                                                  \
        int out_ = int(skipped) - int(at);                                             \
        int start = out_ <= 0 ? 0 : along_k != 0 ? out_ + int(x##_shift) / 2 : 16;     \
        next_##x[i] = cleared(next_##x[i], start);                                     \
        beyond_##x[i] = cleared(beyond_##x[i], start - 8);                             \
    }

// A vector of 16-bit elements, zeros before the one with number `start`.
uvec4 cleared(uvec4 vector, int start) {
    return vector & ~first_bits(uvec4(~0u), 16 * start);
}

#define READ_FIRST_STEP()                                                              \
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i) READ_FIRST(a, a_from + i * a_step)   \
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) READ_FIRST(b, b_from + i * b_step)   \
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i) ZERO_K_TAIL(a, A_ALONG_K, A_FIRST(i))\
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) ZERO_K_TAIL(b, B_ALONG_K, B_FIRST(i))\
    PREFETCH_NEXT(min(1u, count - 1))

#define PREFETCH_NEXT(tile)                                                            \
    {                                                                                  \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i) READY(a, i)                      \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i) READY(b, i)                      \
        READ(tile)                                                                     \
    }

#define READ(tile)                                                                     \
    {                                                                                  \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[i] = a.at[a_from + (tile) * a_next + i * a_step];                   \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i) next_b[i] = b.at[B_AT(tile, i)]; \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            beyond_a[i] = a.at[a_from + (tile) * a_next + i * a_step + AFTER(a)];      \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)                                  \
            beyond_b[i] = b.at[B_AT(tile, i) + AFTER(b)];                              \
    }
