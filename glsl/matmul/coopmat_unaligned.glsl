// Unaligned operands of matmul/gemm_coopmat.comp: see lib/unaligned_load.glsl

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

// With UNALIGNED, the second vector of each load, and the merged value.
#define AFTER(x) (x##_shift != 0 ? 1 : 0)
#define FETCHED(x, i) (UNALIGNED != 0 ? ready_##x[i] : next_##x[i])
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
