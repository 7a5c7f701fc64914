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
// REALS: x has real numbers, which are taken as complex ones. With JOINED each takes the
// number that lies `joined` after it as its imaginary part, up to `end`, then 0.
//
// grid    one workgroup for ROWS rows, with THREADS invocations each
// in      x (rows, n) complex64; with REAL_IN (rows, 2 n) float32; with HALVES_IN
//         (rows, n + 1) complex64; table, exp(-2 pi i k / n) for k below n; with real
//         numbers, halves, exp(-pi i k / n) for k up to n; inner: a factor of the
//         numbers between the first and the last of half a transform; with STRIDED the
//         distances of rows and numbers, how many rows are beside each other (inners)
//         and how many times (mids), how many of those take the same factors (apart),
//         the length of the row that factors are of (whole), and the numbers of `table`
//         for one of N; with FACTORED_IN what numbers are multiplied with, of which
//         rows have `taken`, as zeros follow
// out     out_ (rows, n) complex64, times scale; with REAL_IN (rows, n + 1); with
//         HALVES_IN (rows, 2 n) float32; with FACTORED_OUT the first `kept` numbers, times
//         the factors
// consts  N: the length, a product of the radices; ROWS; THREADS; INVERSE: the conjugate
//         factors, as of numbers back to real ones; CONJUGATED: halves of transforms are
//         conjugated, or factors of numbers; PLACES: of a row in shared memory
// macros  PASSES, FIRST_k and SECOND_k: each a pass's radix is the product; HELD: most
//         numbers of an invocation; STAGED: neighbouring invocations would read far
//         apart, so numbers are copied to shared memory first, and last from there;
//         ALONG: neighbouring invocations have numbers of a STRIDED row in the first
//         pass, and neighbouring rows in the others; SPLIT: shared memory has one part
//         of each number at a time, so that rows are twice as long; LARGEST_RADIX: of
//         the radices, if that is above 13
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
layout(constant_id = 8) const uint PLACES = 3;

#ifndef PASSES
#define PASSES 1
#define FIRST_0 2
#define SECOND_0 1
#define HELD 2
#endif

#include "fft/butterfly.glsl"
#include "fft/halves.glsl"

#if REALS
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Reals { float at[]; };
#define SOURCE Reals
#else
#define SOURCE Numbers
#endif

layout(push_constant, std430) uniform Push {
    SOURCE x;
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
#if JOINED
    uint joined;
    uint end;
#endif
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

#if SPLIT
shared float data[ROWS * PLACES];
#else
shared vec2 data[ROWS * PLACES];
#endif

// One in 16 places is left out, so that numbers 8 or 16 apart lie in different banks.
uint place_of(uint row, uint number) {
    return row * PLACES + number + (number >> 4);
}

// Place of number begin + q * apart of a row, where begin modulo block is below apart: most
// of it is a constant, or that of `begin`.
uint place_from(uint row, uint begin, uint q, uint apart, uint block) {
    bool whole = apart % 16u == 0u;
    bool part = 16u % apart == 0u && (block % 16u == 0u || 16u % block == 0u);
    if (whole || part) return place_of(row, begin) + q * apart + (q * apart >> 4);
    return place_of(row, begin + q * apart);
}

#if STRIDED
#define TABLE_STEP push.table_step
#else
#define TABLE_STEP 1u
#endif

// exp(-2 pi i k / N), or its conjugate, for k times the step of the table
vec2 factor_of(Numbers table, uint k) {
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

vec2 number_at(SOURCE x, uint i) {
#if JOINED
    uint other = i + push.joined;
    return vec2(x.at[i], other < push.end ? x.at[other] : 0.0);
#elif REALS
    return vec2(x.at[i], 0.0);
#else
    return x.at[i];
#endif
}

vec2 times_factor(vec2 value, Numbers factors, uint k) {
    vec2 factor = factors.at[k];
    return product(value, CONJUGATED != 0 ? conjugate(factor) : factor);
}

#if FACTORED_IN
// Number k of a row that begins at `begin`, as a convolution takes it
vec2 taken_number(SOURCE x, uint begin, uint k) {
    if (k >= push.taken) return vec2(0.0);
    return times_factor(number_at(x, begin + k), push.in_factors, k);
}
#endif

#if FACTORED_OUT
void keep(Results out_, uint begin, uint k, vec2 value) {
    if (k < push.kept)
        out_.at[begin + k] = push.scale * times_factor(value, push.out_factors, k);
}
#endif

#if STRIDED
// Number k + more of a row that begins at `start`; of `more`, all is uniform.
vec2 number_of(SOURCE x, uvec2 start, uint k, uint more) {
    k = start.y + k * push.from[2] + more * push.from[2];
#if FACTORED_IN
    return taken_number(x, start.x, k);
#else
    return number_at(x, start.x + k);
#endif
}
#endif

// What the first pass reads as number k of a row of the workgroup
vec2 given(SOURCE x, uint first, uint row, uint k) {
#if STRIDED && STAGED
    return number_of(x, starts[row], k, 0u);
#elif HALVES_IN
    return pair_of_half(x, push.halves, (first + row) * (N + 1u), k, N, push.inner);
#elif FACTORED_IN
    return taken_number(x, (first + row) * push.taken, k);
#else
    return number_at(x, (first + row) * N + k);
#endif
}

// Number begin + q * apart
#if STAGED
#define READ_FIRST(begin, q, apart, block) READ_SHARED(begin, q, apart, block)
#elif STRIDED
#define READ_FIRST(begin, q, apart, block) number_of(x, start_in, begin, (q) * (apart))
#else
#define READ_FIRST(begin, q, apart, block) given(x, first, row, begin + (q) * (apart))
#endif
#if STRIDED && FACTORED_OUT
#define WRITE_LAST(begin, q, apart, value)                                               \
    keep(                                                                                \
        out_, start_out.x,                                                               \
        start_out.y + (begin) * push.to[2] + (q) * (apart) * push.to[2], value           \
    )
#define SHARED_LAST 0
#elif STRIDED
#define WRITE_LAST(begin, q, apart, value)                                               \
    out_.at[start_out.x + start_out.y + (begin) * push.to[2] +                           \
            (q) * (apart) * push.to[2]] = SCALED(value)
#define SHARED_LAST 0
#elif STAGED || REAL_IN
#define WRITE_LAST(begin, q, apart, value) WRITE_SHARED(begin, q, apart, value)
#define SHARED_LAST 1
#elif FACTORED_OUT
#define WRITE_LAST(begin, q, apart, value)                                               \
    keep(out_, (first + row) * push.kept, begin + (q) * (apart), value)
#define SHARED_LAST 0
#else
#define WRITE_LAST(begin, q, apart, value)                                               \
    out_.at[(first + row) * N + begin + (q) * (apart)] = push.scale * (value)
#define SHARED_LAST 0
#endif

// Results of TWIDDLED columns take factors, the scale is the last pass's. That of number
// begin + (b + FIRST * a) * MANY is a root, or of two to four of them.
#if TWIDDLED
#define SCALED(value) (value)
#define TURN_STEPS(FIRST, SECOND)                                                        \
    vec2 turn, step_on = root(turns * MANY, push.whole), leaps[4];                       \
    [[unroll]] for (uint a = 1; a < SECOND; ++a)                                         \
        leaps[a] = a < 3 ? root(turns * (a * FIRST * MANY), push.whole)                  \
                         : product(leaps[1], leaps[2]);
#define FIRST_TURN(b)                                                                    \
    if (b % 2u == 0u)                                                                    \
        turn = root(turns * (number + b * MANY), push.whole);                            \
    else                                                                                 \
        turn = product(turn, step_on);
#define TAKE_TURN(a, value)                                                              \
    value = product(value, a == 0 ? turn : product(turn, leaps[a]));
#else
#define SCALED(value) (push.scale * (value))
#define TURN_STEPS(FIRST, SECOND)
#define FIRST_TURN(b)
#define TAKE_TURN(a, value)
#endif
#define NO_STEPS(FIRST, SECOND)
#define NO_START(b)
#define NO_TURN(a, value)

#define READ_SHARED(begin, q, apart, block) data[place_from(row, begin, q, apart, block)]
#define WRITE_SHARED(begin, q, apart, value) data[place_from(row, begin, q, apart, N)] = value
#define NOTHING

// Rows and numbers of invocations: `has_row` is uniform in all invocations of a row, but
// of STRIDED ones.
#define TAKE_ROWS                                                                        \
    row = gl_LocalInvocationIndex / THREADS;                                             \
    lane = gl_LocalInvocationIndex - row * THREADS;                                      \
    has_row = row < ROWS && first + row < push.rows;
#define TAKE_COLUMNS                                                                     \
    lane = gl_LocalInvocationIndex / ROWS;                                               \
    row = gl_LocalInvocationIndex - lane * ROWS;                                         \
    has_row = lane < THREADS && first + row < push.rows;
#if ALONG
#define ROWS_AGAIN TAKE_ROWS
#define COLUMNS_THEN TAKE_COLUMNS
#else
#define ROWS_AGAIN
#define COLUMNS_THEN
#endif

// Invocations' shares of a pass
#define EACH(FIRST, SECOND, DONE, BODY)                                                  \
    {                                                                                    \
        const uint RADIX = FIRST * SECOND, APART = N / (DONE * RADIX);                   \
        const uint MANY = N / RADIX, COUNT = (MANY + THREADS - 1u) / THREADS;            \
        [[unroll]] for (uint c = 0; c < COUNT; ++c) {                                    \
            uint number = lane + c * THREADS;                                            \
            if (!has_row || (MANY % THREADS != 0u && number >= MANY)) continue;          \
            uint k = number / APART, from = k * APART * RADIX + (number - k * APART);    \
            BODY                                                                         \
        }                                                                                \
    }

#define READ_ALL(READ)                                                                   \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        held[c * RADIX + q] = READ(from, q, APART, APART * RADIX);
// Factors q are products of those of the powers of 2 in q, as loads of neighbours are far
// apart in the table: the more, the larger q is.
#define TWIDDLE(DONE)                                                                    \
    if (DONE > 1) {                                                                      \
        uint turned_by = k * APART * TABLE_STEP;                                         \
        vec2 factor[RADIX];                                                              \
        [[unroll]] for (uint q = 1; q < RADIX; ++q) {                                    \
            uint rest = q & (q - 1u);                                                    \
            if (rest == 0u)                                                              \
                factor[q] = factor_of(table, q * turned_by);                             \
            else                                                                         \
                factor[q] = product(factor[rest], factor[q - rest]);                     \
            held[c * RADIX + q] = product(held[c * RADIX + q], factor[q]);               \
        }                                                                                \
    }

// `held` to `passed`, and this to what KEEP is given
#define COMBINE(FIRST, SECOND, STEPS, START, TURN, KEEP)                                 \
    vec2 passed[RADIX];                                                                  \
    [[unroll]] for (uint a = 0; a < SECOND; ++a) {                                       \
        vec2 value[MOST];                                                                \
        [[unroll]] for (uint b = 0; b < FIRST; ++b)                                      \
            value[b] = held[c * RADIX + a + SECOND * b];                                 \
        transform(FIRST, value);                                                         \
        [[unroll]] for (uint b = 0; b < FIRST; ++b)                                      \
            passed[a * FIRST + b] = turned_by_root(value[b], a * b, RADIX);              \
    }                                                                                    \
    STEPS(FIRST, SECOND)                                                                 \
    [[unroll]] for (uint b = 0; b < FIRST; ++b) {                                        \
        vec2 value[MOST];                                                                \
        [[unroll]] for (uint a = 0; a < SECOND; ++a) value[a] = passed[a * FIRST + b];   \
        transform(SECOND, value);                                                        \
        START(b)                                                                         \
        [[unroll]] for (uint a = 0; a < SECOND; ++a) {                                   \
            TURN(a, value[a])                                                            \
            KEEP(number, b + FIRST * a, MANY, value[a]);                                 \
        }                                                                                \
    }

// One pass: `held` has the numbers that the invocation has read, COUNT times RADIX.
#define PASS(FIRST, SECOND, DONE, READ, BEFORE, WRITE)                                   \
    EACH(FIRST, SECOND, DONE, READ_ALL(READ) TWIDDLE(DONE))                              \
    BEFORE;                                                                              \
    EACH(                                                                                \
        FIRST, SECOND, DONE,                                                             \
        COMBINE(FIRST, SECOND, NO_STEPS, NO_START, NO_TURN, WRITE)                       \
    )
#define LAST_PASS(FIRST, SECOND, DONE, READ, BEFORE)                                     \
    EACH(FIRST, SECOND, DONE, READ_ALL(READ) TWIDDLE(DONE))                              \
    BEFORE;                                                                              \
    EACH(                                                                                \
        FIRST, SECOND, DONE,                                                             \
        COMBINE(FIRST, SECOND, TURN_STEPS, FIRST_TURN, TAKE_TURN, WRITE_LAST)            \
    )

// The same in steps: numbers are read, passed on to `made`, and from there by way of shared
// memory, one part after the other, to the next pass's `held`.
#define MAKE(number, q, apart, value) made[c * RADIX + (q)] = value
#define STEP(FIRST, SECOND, DONE)                                                        \
    EACH(                                                                                \
        FIRST, SECOND, DONE,                                                             \
        TWIDDLE(DONE) COMBINE(FIRST, SECOND, NO_STEPS, NO_START, NO_TURN, MAKE)          \
    )
#define LAST_STEP(FIRST, SECOND, DONE)                                                   \
    EACH(                                                                                \
        FIRST, SECOND, DONE,                                                             \
        TWIDDLE(DONE)                                                                    \
            COMBINE(FIRST, SECOND, TURN_STEPS, FIRST_TURN, TAKE_TURN, WRITE_LAST)        \
    )
#define READ_PART(part)                                                                  \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        held[c * RADIX + q].part = READ_SHARED(from, q, APART, APART * RADIX);
#define WRITE_PART(part)                                                                 \
    [[unroll]] for (uint q = 0; q < RADIX; ++q)                                          \
        WRITE_SHARED(number, q, MANY, made[c * RADIX + q].part);

// Then the next step follows at once: others may still read.
#define EXCHANGE(FIRST, SECOND, DONE, NEXT_FIRST, NEXT_SECOND, NEXT_DONE, BACK, THEN)    \
    EACH(FIRST, SECOND, DONE, WRITE_PART(x))                                             \
    barrier();                                                                           \
    THEN EACH(NEXT_FIRST, NEXT_SECOND, NEXT_DONE, READ_PART(x))                          \
    barrier();                                                                           \
    BACK EACH(FIRST, SECOND, DONE, WRITE_PART(y))                                        \
    barrier();                                                                           \
    THEN EACH(NEXT_FIRST, NEXT_SECOND, NEXT_DONE, READ_PART(y))                          \
    barrier();

#if PASSES == 1
#define LAST_FIRST FIRST_0
#define LAST_SECOND SECOND_0
#define LAST_DONE 1u
#elif PASSES == 2
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
#define DONE_1 (FIRST_0 * SECOND_0)
#define DONE_2 (DONE_1 * FIRST_1 * SECOND_1)
#define DONE_3 (DONE_2 * FIRST_2 * SECOND_2)
#define DONE_4 (DONE_3 * FIRST_3 * SECOND_3)

void main() {
    SOURCE x = push.x;
    Numbers table = push.table;
    Results out_ = push.out_;
    uint first = linear_workgroup() * ROWS;
    if (first >= push.rows) return;
    uint row, lane;
    bool has_row;
#if STRIDED && !ALONG
    TAKE_COLUMNS
#else
    TAKE_ROWS
#endif
#if STRIDED
    uvec2 start_in = start_of(parts_of(first + row), push.from);
#endif
    vec2 held[HELD];
#if SPLIT
    vec2 made[HELD];
#endif
#if STAGED
    uint here = min(ROWS, push.rows - first);
    // All loads come before the stores.
    const uint SHARES = (ROWS * N + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    vec2 share[SHARES];
#if STRIDED
    if (lane == 0u) starts[row] = start_in;
    barrier();
#endif
    [[unroll]] for (uint c = 0u; c < SHARES; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i < here * N) share[c] = given(x, first, i / N, i % N);
    }
    [[unroll]] for (uint c = 0u; c < SHARES; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i < here * N) data[place_of(i / N, i % N)] = share[c];
    }
    barrier();
#endif
#if STRIDED
    // Rows of the last pass
#if ALONG
    TAKE_COLUMNS
#endif
    uvec3 parts = parts_of(first + row);
    uvec2 start_out = start_of(parts, push.to);
    uint turns = parts.z / push.apart;
    ROWS_AGAIN
#endif

#if SPLIT
    EACH(FIRST_0, SECOND_0, 1u, READ_ALL(READ_FIRST))
    STEP(FIRST_0, SECOND_0, 1u)
    EXCHANGE(FIRST_0, SECOND_0, 1u, FIRST_1, SECOND_1, DONE_1, ROWS_AGAIN, COLUMNS_THEN)
#if PASSES > 2
    STEP(FIRST_1, SECOND_1, DONE_1)
    EXCHANGE(FIRST_1, SECOND_1, DONE_1, FIRST_2, SECOND_2, DONE_2, NOTHING, NOTHING)
#endif
#if PASSES > 3
    STEP(FIRST_2, SECOND_2, DONE_2)
    EXCHANGE(FIRST_2, SECOND_2, DONE_2, FIRST_3, SECOND_3, DONE_3, NOTHING, NOTHING)
#endif
#if PASSES > 4
    STEP(FIRST_3, SECOND_3, DONE_3)
    EXCHANGE(FIRST_3, SECOND_3, DONE_3, FIRST_4, SECOND_4, DONE_4, NOTHING, NOTHING)
#endif
    LAST_STEP(LAST_FIRST, LAST_SECOND, LAST_DONE)
#else
#if PASSES > 1
#if STAGED
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, barrier(), WRITE_SHARED)
#else
    PASS(FIRST_0, SECOND_0, 1u, READ_FIRST, NOTHING, WRITE_SHARED)
#endif
    barrier();
    COLUMNS_THEN
#endif
#if PASSES > 2
    PASS(FIRST_1, SECOND_1, DONE_1, READ_SHARED, barrier(), WRITE_SHARED)
    barrier();
#endif
#if PASSES > 3
    PASS(FIRST_2, SECOND_2, DONE_2, READ_SHARED, barrier(), WRITE_SHARED)
    barrier();
#endif
#if PASSES > 4
    PASS(FIRST_3, SECOND_3, DONE_3, READ_SHARED, barrier(), WRITE_SHARED)
    barrier();
#endif
#if PASSES == 1
#define READ_LAST READ_FIRST
#else
#define READ_LAST READ_SHARED
#endif
#if SHARED_LAST && (PASSES > 1 || STAGED)
    LAST_PASS(LAST_FIRST, LAST_SECOND, LAST_DONE, READ_LAST, barrier())
#else
    LAST_PASS(LAST_FIRST, LAST_SECOND, LAST_DONE, READ_LAST, NOTHING)
#endif
#endif

#if REAL_IN
    // Numbers k and N - k of a row for k below N / 2, and the middle one. All loads come
    // before the stores, which they would wait for.
    const uint PAIRS = (N + 1u) / 2u, TURNS = (PAIRS + THREADS - 1u) / THREADS;
    vec2 factors[TURNS], low[TURNS], high[TURNS];
    [[unroll]] for (uint c = 0u; c < TURNS; ++c)
        factors[c] = push.halves.at[min(lane + c * THREADS, N)];
    vec2 middle = push.halves.at[N / 2u];
    barrier();
#if STAGED
    // The places that an invocation reads are those that it writes, and N.
#define KEEP_HALF(k, value) data[place_of(row, k)] = value
#else
    uint to = (first + row) * (N + 1u);
#define KEEP_HALF(k, value) out_.at[to + (k)] = value
#endif
    [[unroll]] for (uint c = 0u; c < TURNS; ++c) {
        uint k = lane + c * THREADS;
        if (!has_row || (PAIRS % THREADS != 0u && k >= PAIRS)) continue;
        vec2 ahead = data[place_of(row, k)];
        vec2 back = data[place_of(row, k > 0u ? N - k : 0u)];
        halves_of_pairs(ahead, back, factors[c], k, push.inner, low[c], high[c]);
    }
    [[unroll]] for (uint c = 0u; c < TURNS; ++c) {
        uint k = lane + c * THREADS;
        if (!has_row || (PAIRS % THREADS != 0u && k >= PAIRS)) continue;
        KEEP_HALF(k, push.scale * low[c]);
        KEEP_HALF(N - k, push.scale * high[c]);
    }
    if (has_row && N % 2u == 0u && lane == 0u) {
        vec2 value = data[place_of(row, N / 2u)], other;
        halves_of_pairs(value, value, middle, N / 2u, push.inner, value, other);
        KEEP_HALF(N / 2u, push.scale * value);
    }
#if STAGED
    barrier();
    uint stored = here * (N + 1u);
    const uint STORES = (ROWS * (N + 1u) + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    [[unroll]] for (uint c = 0u; c < STORES; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i < stored)
            out_.at[first * (N + 1u) + i] = data[place_of(i / (N + 1u), i % (N + 1u))];
    }
#endif
#elif STAGED && !STRIDED
    barrier();
    [[unroll]] for (uint c = 0u; c < SHARES; ++c) {
        uint i = gl_LocalInvocationIndex + c * gl_WorkGroupSize.x;
        if (i >= here * N) continue;
        vec2 value = data[place_of(i / N, i % N)];
#if FACTORED_OUT
        keep(out_, (first + i / N) * push.kept, i % N, value);
#else
        out_.at[first * N + i] = push.scale * value;
#endif
    }
#endif
}
