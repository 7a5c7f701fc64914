// Loads of matmul/gemm_coopmat_split.comp: float32 in place, whose elements become pairs
// of bfloat16 on their way into shared memory
//
// An invocation takes two vectors of four elements at a time. Of lines along K these are
// elements HALF_STEP apart, so that neighbours read what is adjacent; the elements of a
// step are multiplied in that order, which lines across K follow: see step_line().

const uint UNIT = 4;  // elements that strides count
const uint STEPS_IN_REGISTERS = 1;
const uint L2_PREFETCHES = 0;

const uint HALF_STEP = STEP_K / 2;
const uint A_ACROSS = (A_ALONG_K != 0 ? STEP_K : BLOCK_M) / WIDTH;
const uint B_ACROSS = (B_ALONG_K != 0 ? STEP_K : BLOCK_N) / WIDTH;
const uint A_APART = THREADS / A_ACROSS;
const uint B_APART = THREADS / B_ACROSS;
const uint A_SECOND = A_ALONG_K != 0 ? HALF_STEP / UNIT : 1;
const uint B_SECOND = B_ALONG_K != 0 ? HALF_STEP / UNIT : 1;
const uint A_LOW = A_ALONG_K != 0 ? STEP_K / WIDTH : STEP_K * A_PITCH;
const uint B_LOW = B_ALONG_K != 0 ? STEP_K / WIDTH : STEP_K * B_PITCH;

// Where the elements of a line across K come within a step.
uint step_line(uint k) {
    uint within = k % HALF_STEP;
    return within / 4 * 8 + k / HALF_STEP * 4 + within % 4;
}

// High and low halves in few instructions: the first is the nearest bfloat16, ties away
// from 0, but of some NaN, whose low half is NaN as that of an infinity is.
void split_pairs(uvec4 first, uvec4 second, out uvec4 high, out uvec4 low) {
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uvec4 four = i < 2 ? first : second;
        uvec2 own = i % 2 == 0 ? four.xy : four.zw;
        uvec2 near = own + 0x8000u;
        high[i] = upper_halves(near);
        vec2 rest = uintBitsToFloat(own) - uintBitsToFloat(near & 0xffff0000u);
        low[i] = upper_halves(floatBitsToUint(rest * CUT_ROUNDS));
    }
}

#define REGISTERS                                                                      \
    uvec4 next_a[A_LOADS], next_b[B_LOADS];                                            \
    uint a_own = thread / A_ACROSS, a_pair = thread % A_ACROSS;                        \
    uint b_own = thread / B_ACROSS, b_pair = thread % B_ACROSS;                        \
    uint a_at = batch * push.a_batch                                                   \
        + (A_ALONG_K != 0 ? (first_row + a_own) * a_stride + along + a_pair            \
                          : (start + a_own) * a_stride + first_row / UNIT + 2 * a_pair); \
    uint b_at = matrix * push.b_batch                                                  \
        + (B_ALONG_K != 0                                                              \
                ? (first_column + b_own) * b_stride + along + b_pair                   \
                : (start + b_own) * b_stride + first_column / UNIT + 2 * b_pair);      \
    uint a_on = A_ALONG_K != 0 ? STEP_K / UNIT : STEP_K * a_stride;                    \
    uint b_on = B_ALONG_K != 0 ? STEP_K / UNIT : STEP_K * b_stride;

#define ALIGN_OPERANDS()
#define PREFETCH_L2()

// The vector with a number of those that an invocation loads of a step.
#define PLACE(x, X, i) (x##_at + (i) / 2 * X##_APART * x##_stride + (i) % 2 * X##_SECOND)
// K index, within its step, of the first element of such a vector.
#define FIRST_K(x, X, i)                                                               \
    (X##_ALONG_K != 0 ? x##_pair * UNIT + (i) % 2 * HALF_STEP                          \
                      : x##_own + (i) / 2 * X##_APART)

#define READ_FIRST(x, X)                                                               \
    [[unroll]] for (uint i = 0; i < X##_LOADS; ++i) {                                  \
        bool in_k_tail = K_TAIL != 0 && FIRST_K(x, X, i) < skipped;                    \
        next_##x[i] = in_k_tail ? uvec4(0) : x.at[PLACE(x, X, i)];                     \
    }
#define READ_FIRST_STEP()                                                              \
    READ_FIRST(a, A)                                                                   \
    READ_FIRST(b, B)

#define PREFETCH_NEXT(tile)                                                            \
    {                                                                                  \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[i] = a.at[PLACE(a, A, i) + (tile) * a_on];                          \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)                                  \
            next_b[i] = b.at[PLACE(b, B, i) + (tile) * b_on];                          \
    }

#define STORE_SPLIT(x, X, from)                                                        \
    [[unroll]] for (uint i = 0; i < X##_LOADS; i += 2) {                               \
        uvec4 high, low;                                                               \
        split_pairs(next_##x[i], next_##x[i + 1], high, low);                          \
        uint line = x##_own + i / 2 * X##_APART;                                       \
        uint to = (from) + (X##_ALONG_K != 0 ? line : step_line(line)) * X##_PITCH     \
            + x##_pair;                                                                \
        tiles[to] = high;                                                              \
        tiles[to + X##_LOW] = low;                                                     \
    }
#define STORE_LEFT(stage) STORE_SPLIT(a, A, stage)
#define STORE_RIGHT(stage) STORE_SPLIT(b, B, stage + B_START)
