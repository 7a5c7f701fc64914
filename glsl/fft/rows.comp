// Discrete Fourier transforms of rows, in registers: of complex numbers, of real ones to
// half their transform, and back
//
// An invocation transforms RADIX numbers of a pass at once, which it reads from memory in
// the first pass, then from shared memory, and writes there, and to memory in the last.
// Real numbers, of which there are an even number, are taken as half as many complex
// ones: those at even places are real parts.
//
// STRIDED rows lie beside each other, as the columns of a matrix: those of (o, m) are
// neighbours. So a long row is transformed as a matrix or a cube: first its columns, whose
// results take factors (TWIDDLED), last its rows, written as columns.
//
// grid    one workgroup for ROWS rows, with THREADS invocations each
// in      x (rows, n) complex64; with REAL_IN (rows, 2 n) float32; with HALVES_IN (rows,
//         n + 1) complex64; table, exp(-2 pi i k / n) for k below n; with real numbers,
//         halves, exp(-pi i k / n) for k up to n; inner: a factor of the numbers between
//         the first and the last of half a transform; with STRIDED the distances of
//         rows and numbers, how many rows are beside each other (inners) and how many
//         times (mids), how many of those take the same factors (apart), the length of
//         the row that factors are of (whole), and the numbers of `table` for one of N; with FACTORED_IN what numbers are multiplied with, of
//         which rows have `taken`, as zeros follow
// out     out_ (rows, n) complex64, times scale; with REAL_IN (rows, n + 1); with
//         HALVES_IN (rows, 2 n) float32; with FACTORED_OUT the first `kept` numbers, times
//         the factors
// consts  N: the length, a product of the radices; ROWS; THREADS; INVERSE: the conjugate
//         factors, as of numbers back to real ones; CONJUGATED: halves of transforms are
//         conjugated, or factors of numbers
// macros  PASSES, FIRST_k and SECOND_k: each a pass's radix is the product; HELD: most
//         numbers of an invocation; STAGED: neighbouring invocations would read far
//         apart, so numbers are copied to shared memory first, and last from there;
//         SPLIT: shared memory has one part of each number at a time, so that rows are
//         twice as long; LARGEST_RADIX: of the radices, if that is above 13
// source  Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992,
//         section 1.7: the mixed-radix Stockham autosort framework; Sorensen et al.,
//         "Real-Valued Fast Fourier Transform Algorithms", 1987: real numbers as pairs
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint N = 2;
layout(constant_id = 4) const uint ROWS = 1;
layout(constant_id = 5) const uint INVERSE = 0;
layout(constant_id = 6) const uint THREADS = 1;
layout(constant_id = 7) const uint CONJUGATED = 0;

#ifndef PASSES
#define PASSES 1
#define FIRST_0 2
#define SECOND_0 1
#define HELD 2
#endif

#include "fft/butterfly.glsl"
#include "fft/halves.glsl"

layout(push_constant, std430) uniform Push {
    Numbers x;
    Numbers table;
#if REAL_IN || HALVES_IN
    Numbers halves;
#endif
#if FACTORED_IN
    Numbers in_factors;
#endif
#if FACTORED_OUT
    Numbers out_factors;
#endif
    Results out_;
    uint rows;
    float scale;
#if STRIDED
    // Distances of o, m and numbers
    uint from[3];
    uint to[3];
    uint mids;
    uint inners;
    uint apart;
    uint whole;
    uint table_step;
#endif
#if REAL_IN || HALVES_IN
    float inner;
#endif
#if FACTORED_IN
    uint taken;
#endif
#if FACTORED_OUT
    uint kept;
#endif
} push;

// One in 16 places is left out, so that numbers 8 or 16 apart lie in different banks.
const uint ROW_PLACES = N + N / 16u + 1u;

#if SPLIT
shared float data[ROWS * ROW_PLACES];
#else
shared vec2 data[ROWS * ROW_PLACES];
#endif

uint place_of(uint row, uint number) {
    return row * ROW_PLACES + number + (number >> 4);
}

// exp(-2 pi i k / N), or its conjugate
vec2 factor_of(Numbers table, uint k) {
#if STRIDED
    k *= push.table_step;
#endif
    vec2 value = table.at[k];
    return INVERSE != 0 ? conjugate(value) : value;
}

#if STRIDED
// Where outer rows begin, and the number of the row's first one there
uvec2 start_of(uvec3 row, uint distances[3]) {
    return uvec2(row.x * distances[0], row.y * distances[1] + row.z);
}

// Outer, mid and inner
uvec3 parts_of(uint row) {
    uint line = row / push.inners, outer = line / push.mids;
    return uvec3(outer, line - outer * push.mids, row - line * push.inners);
}
#if STAGED
shared uvec2 starts[ROWS];
#endif
#endif

vec2 times_factor(vec2 value, Numbers factors, uint k) {
    vec2 factor = factors.at[k];
    return product(value, CONJUGATED != 0 ? conjugate(factor) : factor);
}

#if FACTORED_IN
// Number k of a row that begins at `begin`, as a convolution takes it
vec2 taken_number(Numbers x, uint begin, uint k) {
    if (k >= push.taken) return vec2(0.0);
    return times_factor(x.at[begin + k], push.in_factors, k);
}
#endif

#if FACTORED_OUT
void keep(Results out_, uint begin, uint k, vec2 value) {
    if (k < push.kept)
        out_.at[begin + k] = push.scale * times_factor(value, push.out_factors, k);
}
#endif

#if STRIDED
// Number k of a row that begins at `start`
vec2 number_of(Numbers x, uvec2 start, uint k) {
    k = start.y + k * push.from[2];
#if FACTORED_IN
    return taken_number(x, start.x, k);
#else
    return x.at[start.x + k];
#endif
}
#endif

// What the first pass reads as number k of a row of the workgroup
vec2 given(Numbers x, uint first, uint row, uint k) {
#if STRIDED && STAGED
    return number_of(x, starts[row], k);
#elif HALVES_IN
    return pair_of_half(x, push.halves, (first + row) * (N + 1u), k, N, push.inner);
#elif FACTORED_IN
    return taken_number(x, (first + row) * push.taken, k);
#else
    return x.at[(first + row) * N + k];
#endif
}

#if STAGED && !SPLIT
#define READ_FIRST(k) data[place_of(row, k)]
#elif STRIDED
#define READ_FIRST(k) number_of(x, start_in, k)
#else
#define READ_FIRST(k) given(x, first, row, k)
#endif
#if STRIDED
#if TWIDDLED
#define FACTORED(k, value) product(value, root(turns * (k), push.whole))
#else
#define FACTORED(k, value) (value)
#endif
#if FACTORED_OUT
#define WRITE_LAST(k, value)                                                             \
    keep(out_, start_out.x, start_out.y + (k) * push.to[2], value)
#else
#define WRITE_LAST(k, value)                                                             \
    out_.at[start_out.x + start_out.y + (k) * push.to[2]] =                              \
        push.scale * FACTORED(k, value)
#endif
#define SHARED_LAST 0
#elif STAGED || REAL_IN
#define WRITE_LAST(k, value) data[place_of(row, k)] = value
#define SHARED_LAST 1
#elif FACTORED_OUT
#define WRITE_LAST(k, value) keep(out_, (first + row) * push.kept, k, value)
#define SHARED_LAST 0
#else
#define WRITE_LAST(k, value) out_.at[(first + row) * N + k] = push.scale * (value)
#define SHARED_LAST 0
#endif

// One pass: `held` has the numbers that the invocation has read, COUNT times RADIX.
// `has_row` is uniform in all invocations of a row.
#define PASS(FIRST, SECOND, DONE, READ, WRITE, BEFORE)                                  \
    {                                                                                    \
        const uint RADIX = FIRST * SECOND, APART = N / (DONE * RADIX);                   \
        const uint MANY = N / RADIX, COUNT = (MANY + THREADS - 1u) / THREADS;            \
        [[unroll]] for (uint c = 0; c < COUNT; ++c) {                                    \
            uint number = lane + c * THREADS;                                            \
            if (!has_row || number >= MANY) continue;                                    \
            uint k = number / APART, from = k * APART * RADIX + (number - k * APART);    \
            [[unroll]] for (uint q = 0; q < RADIX; ++q) {                                \
                vec2 value = READ(from + q * APART);                                     \
                if (DONE > 1 && q > 0)                                                   \
                    value = product(value, factor_of(table, q * k * APART));             \
                held[c * RADIX + q] = value;                                             \
            }                                                                            \
        }                                                                                \
        BEFORE;                                                                          \
        [[unroll]] for (uint c = 0; c < COUNT; ++c) {                                    \
            uint number = lane + c * THREADS;                                            \
            if (!has_row || number >= MANY) continue;                                    \
            vec2 passed[RADIX];                                                          \
            [[unroll]] for (uint a = 0; a < SECOND; ++a) {                               \
                vec2 value[MOST];                                                        \
                [[unroll]] for (uint b = 0; b < FIRST; ++b)                              \
                    value[b] = held[c * RADIX + a + SECOND * b];                         \
                transform(FIRST, value);                                                 \
                [[unroll]] for (uint b = 0; b < FIRST; ++b)                              \
                    passed[a * FIRST + b] = product(value[b], root(a * b, RADIX));       \
            }                                                                            \
            [[unroll]] for (uint b = 0; b < FIRST; ++b) {                                \
                vec2 value[MOST];                                                        \
                [[unroll]] for (uint a = 0; a < SECOND; ++a)                             \
                    value[a] = passed[a * FIRST + b];                                    \
                transform(SECOND, value);                                                \
                [[unroll]] for (uint a = 0; a < SECOND; ++a)                             \
                    WRITE(number + (b + FIRST * a) * MANY, value[a]);                    \
            }                                                                            \
        }                                                                                \
    }

// The same in steps: numbers are read, passed on to `made`, and from there by way of shared
// memory, one part after the other, to the next pass's `held`.
#define EACH(FIRST, SECOND, DONE, BODY)                                                 \
    {                                                                                    \
        const uint RADIX = FIRST * SECOND, APART = N / (DONE * RADIX);                   \
        const uint MANY = N / RADIX, COUNT = (MANY + THREADS - 1u) / THREADS;            \
        [[unroll]] for (uint c = 0; c < COUNT; ++c) {                                    \
            uint number = lane + c * THREADS;                                            \
            if (!has_row || number >= MANY) continue;                                    \
            uint k = number / APART, from = k * APART * RADIX + (number - k * APART);    \
            BODY                                                                         \
        }                                                                                \
    }

#define READ_NUMBERS                                                                     \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        held[c * RADIX + q] = READ_FIRST(from + q * APART);
#define READ_PART(part)                                                                  \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        held[c * RADIX + q].part = data[place_of(row, from + q * APART)];
#define WRITE_PART(part)                                                                 \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        data[place_of(row, number + q * MANY)] = made[c * RADIX + q].part;
#define WRITE_NUMBERS                                                                    \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        WRITE_LAST(number + q * MANY, made[c * RADIX + q]);

#define PASS_ON(FIRST, SECOND, DONE)                                                     \
    [[unroll]] for (uint q = 1; q < RADIX; ++q) {                                        \
        if (DONE > 1)                                                                    \
            held[c * RADIX + q] =                                                        \
                product(held[c * RADIX + q], factor_of(table, q * k * APART));           \
    }                                                                                    \
    vec2 passed[RADIX];                                                                  \
    [[unroll]] for (uint a = 0; a < SECOND; ++a) {                                       \
        vec2 value[MOST];                                                                \
        [[unroll]] for (uint b = 0; b < FIRST; ++b)                                      \
            value[b] = held[c * RADIX + a + SECOND * b];                                 \
        transform(FIRST, value);                                                         \
        [[unroll]] for (uint b = 0; b < FIRST; ++b)                                      \
            passed[a * FIRST + b] = product(value[b], root(a * b, RADIX));               \
    }                                                                                    \
    [[unroll]] for (uint b = 0; b < FIRST; ++b) {                                        \
        vec2 value[MOST];                                                                \
        [[unroll]] for (uint a = 0; a < SECOND; ++a) value[a] = passed[a * FIRST + b];   \
        transform(SECOND, value);                                                        \
        [[unroll]] for (uint a = 0; a < SECOND; ++a)                                     \
            made[c * RADIX + b + FIRST * a] = value[a];                                  \
    }

#define STEP(FIRST, SECOND, DONE) EACH(FIRST, SECOND, DONE, PASS_ON(FIRST, SECOND, DONE))

// Then the next step follows at once: others may still read.
#define EXCHANGE(FIRST, SECOND, DONE, NEXT_FIRST, NEXT_SECOND, NEXT_DONE)                \
    EACH(FIRST, SECOND, DONE, WRITE_PART(x))                                             \
    barrier();                                                                           \
    EACH(NEXT_FIRST, NEXT_SECOND, NEXT_DONE, READ_PART(x))                               \
    barrier();                                                                           \
    EACH(FIRST, SECOND, DONE, WRITE_PART(y))                                             \
    barrier();                                                                           \
    EACH(NEXT_FIRST, NEXT_SECOND, NEXT_DONE, READ_PART(y))                               \
    barrier();

// Numbers of neighbours in memory, one part after the other, to those that take them
#define STAGE_PART(part)                                                                 \
    [[unroll]] for (uint share = 0u; share < SHARES; ++share) {                          \
        uint i = gl_LocalInvocationIndex + share * gl_WorkGroupSize.x;                   \
        if (i < here * N) data[place_of(i / N, i % N)] = made[share].part;               \
    }                                                                                    \
    barrier();                                                                           \
    EACH(FIRST_0, SECOND_0, 1u, READ_PART(part))                                         \
    barrier();

#define READ_SHARED(k) data[place_of(row, k)]
#define WRITE_SHARED(k, value) data[place_of(row, k)] = value
#define NOTHING

void main() {
    Numbers x = push.x, table = push.table;
    Results out_ = push.out_;
    uint first = linear_workgroup() * ROWS;
    if (first >= push.rows) return;
#if STRIDED
    // Neighbouring invocations have neighbouring rows.
    uint lane = gl_LocalInvocationIndex / ROWS;
    uint row = gl_LocalInvocationIndex - lane * ROWS;
    uvec3 parts = parts_of(first + row);
    uvec2 start_in = start_of(parts, push.from), start_out = start_of(parts, push.to);
    uint turns = parts.z / push.apart;
    bool has_row = lane < THREADS && first + row < push.rows;
#else
    uint row = gl_LocalInvocationIndex / THREADS;
    uint lane = gl_LocalInvocationIndex - row * THREADS;
    bool has_row = row < ROWS && first + row < push.rows;
#endif
    vec2 held[HELD];
#if SPLIT
    vec2 made[HELD];
#endif
#if STAGED || REAL_IN
    uint here = min(ROWS, push.rows - first);
#endif
#if STAGED && STRIDED
    if (lane == 0u) starts[row] = start_in;
    barrier();
#endif
#if STAGED && SPLIT
    const uint SHARES = (ROWS * N + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    [[unroll]] for (uint share = 0u; share < SHARES; ++share) {
        uint i = gl_LocalInvocationIndex + share * gl_WorkGroupSize.x;
        if (i < here * N) made[share] = given(x, first, i / N, i % N);
    }
    STAGE_PART(x)
    STAGE_PART(y)
#elif STAGED
    for (uint i = gl_LocalInvocationIndex; i < here * N; i += gl_WorkGroupSize.x)
        data[place_of(i / N, i % N)] = given(x, first, i / N, i % N);
    barrier();
#elif SPLIT
    EACH(FIRST_0, SECOND_0, 1u, READ_NUMBERS)
#endif

#define DONE_1 (FIRST_0 * SECOND_0)
#define DONE_2 (DONE_1 * FIRST_1 * SECOND_1)
#define DONE_3 (DONE_2 * FIRST_2 * SECOND_2)
#define DONE_4 (DONE_3 * FIRST_3 * SECOND_3)
#if SPLIT
    STEP(FIRST_0, SECOND_0, 1u)
    EXCHANGE(FIRST_0, SECOND_0, 1u, FIRST_1, SECOND_1, DONE_1)
    STEP(FIRST_1, SECOND_1, DONE_1)
#if PASSES > 2
    EXCHANGE(FIRST_1, SECOND_1, DONE_1, FIRST_2, SECOND_2, DONE_2)
    STEP(FIRST_2, SECOND_2, DONE_2)
#endif
#if PASSES > 3
    EXCHANGE(FIRST_2, SECOND_2, DONE_2, FIRST_3, SECOND_3, DONE_3)
    STEP(FIRST_3, SECOND_3, DONE_3)
#endif
#if PASSES > 4
    EXCHANGE(FIRST_3, SECOND_3, DONE_3, FIRST_4, SECOND_4, DONE_4)
    STEP(FIRST_4, SECOND_4, DONE_4)
#endif
#if PASSES == 2
    EACH(FIRST_1, SECOND_1, DONE_1, WRITE_NUMBERS)
#elif PASSES == 3
    EACH(FIRST_2, SECOND_2, DONE_2, WRITE_NUMBERS)
#elif PASSES == 4
    EACH(FIRST_3, SECOND_3, DONE_3, WRITE_NUMBERS)
#else
    EACH(FIRST_4, SECOND_4, DONE_4, WRITE_NUMBERS)
#endif
#elif PASSES == 1
#if SHARED_LAST && STAGED
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, WRITE_LAST, barrier())
#else
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, WRITE_LAST, NOTHING)
#endif
#else
#if STAGED
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, WRITE_SHARED, barrier())
#else
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, WRITE_SHARED, NOTHING)
#endif
    barrier();
#if PASSES > 2
    PASS(FIRST_1, SECOND_1, DONE_1, READ_SHARED, WRITE_SHARED, barrier())
    barrier();
#endif
#if PASSES > 3
    PASS(FIRST_2, SECOND_2, DONE_2, READ_SHARED, WRITE_SHARED, barrier())
    barrier();
#endif
#if PASSES > 4
    PASS(FIRST_3, SECOND_3, DONE_3, READ_SHARED, WRITE_SHARED, barrier())
    barrier();
#endif
#if PASSES == 2
#define LAST_FIRST FIRST_1
#define LAST_SECOND SECOND_1
#define LAST_DONE DONE_1
#elif PASSES == 3
#define LAST_FIRST FIRST_2
#define LAST_SECOND SECOND_2
#define LAST_DONE DONE_2
#elif PASSES == 4
#define LAST_FIRST FIRST_3
#define LAST_SECOND SECOND_3
#define LAST_DONE DONE_3
#else
#define LAST_FIRST FIRST_4
#define LAST_SECOND SECOND_4
#define LAST_DONE DONE_4
#endif
#if SHARED_LAST
    PASS(LAST_FIRST, LAST_SECOND, LAST_DONE, READ_SHARED, WRITE_LAST, barrier())
#else
    PASS(LAST_FIRST, LAST_SECOND, LAST_DONE, READ_SHARED, WRITE_LAST, NOTHING)
#endif
#endif

#if REAL_IN
    const uint PAIRS = N / 2u + 1u;
    const uint TURNS = (ROWS * PAIRS + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    // All loads come before the stores, which they would wait for.
    vec2 factors[TURNS], low[TURNS], high[TURNS];
    [[unroll]] for (uint c = 0u; c < TURNS; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        factors[c] = push.halves.at[i % PAIRS];
    }
    barrier();
    [[unroll]] for (uint c = 0u; c < TURNS; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i >= here * PAIRS) continue;
        uint own = i / PAIRS, k = i - own * PAIRS;
        vec2 ahead = data[place_of(own, k)];
        vec2 back = data[place_of(own, k > 0u ? N - k : 0u)];
        halves_of_pairs(ahead, back, factors[c], k, push.inner, low[c], high[c]);
    }
    [[unroll]] for (uint c = 0u; c < TURNS; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i >= here * PAIRS) continue;
        uint own = i / PAIRS, k = i - own * PAIRS, other = N - k;
        uint to = (first + own) * (N + 1u);
        out_.at[to + k] = push.scale * low[c];
        if (other > k) out_.at[to + other] = push.scale * high[c];
    }
#elif STAGED && !STRIDED
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < here * N; i += gl_WorkGroupSize.x) {
#if FACTORED_OUT
        keep(out_, (first + i / N) * push.kept, i % N, data[place_of(i / N, i % N)]);
#else
        out_.at[first * N + i] = push.scale * data[place_of(i / N, i % N)];
#endif
    }
#endif
}
