// Batched SIMT GEMM in float32 or int8, large tiles in registers
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: batch, then split-K slices. With
//         GRID_MAPPED x: tiles of a row, y: rows of tiles, z: 1 none, 2 split-K slices,
//         3 the batch
// in      a, b: float32 in vectors of 4, K padded to whole pairs of 8, or with K_TAIL,
//         and more than one pair, to whole vectors; strides and batch strides count
//         vectors. DTYPE int8, with OUT_ACC: words of 4 int8 along K in place of
//         float32. With UNALIGNED float32 at any address, not padded, of sizes that are
//         a tile at least; strides count elements
// out     out_ (batch, m, n), contiguous
//         IMPLICIT_GEMM and BIAS: see matmul/gemm_coopmat.comp
// consts  BLOCK_M, BLOCK_N, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K, DIRECT_STORE,
//         UNEVEN_SPLITS, K_SLICES, PREFETCH_DISTANCE, K_TAIL, UNALIGNED; UNEVEN_SLICES:
//         some slices have fewer steps than others; DEPTH, A_STRIDE, B_STRIDE: sizes of
//         a shape that recurs, or 0; GRID_MAPPED
// source  the order of CUTLASS's SIMT kernels; tiles chosen by measurement
// lint    bank-conflict: stores along k run only where neighbours load along k
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#if DTYPE == DTYPE_INT8
#include "lib/dot_int8.glsl"
#define NUMBER int
#define VECTOR ivec4
#define MULTIPLY_ADD(a, b, c) ((c) + dot_int8(a, b))
#else
#define NUMBER float
#define VECTOR vec4
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif

layout(constant_id = 3) const uint BLOCK_M = 128;
layout(constant_id = 4) const uint BLOCK_N = 128;
layout(constant_id = 5) const uint QUADS_M = 4;
layout(constant_id = 6) const uint QUADS_N = 2;
layout(constant_id = 7) const uint A_ALONG_K = 1;
layout(constant_id = 8) const uint B_ALONG_K = 0;
layout(constant_id = 9) const uint DIRECT_STORE = 0;
layout(constant_id = 10) const uint DEPTH = 0;
layout(constant_id = 11) const uint A_STRIDE = 0;
layout(constant_id = 12) const uint B_STRIDE = 0;
layout(constant_id = 13) const uint UNEVEN_SPLITS = 0;
layout(constant_id = 14) const uint K_SLICES = 1;
layout(constant_id = 15) const uint PREFETCH_DISTANCE = 1;
layout(constant_id = 16) const uint UNEVEN_SLICES = 0;
layout(constant_id = 17) const uint UNALIGNED = 0;
layout(constant_id = 18) const uint K_TAIL = 0;
layout(constant_id = 19) const uint GRID_MAPPED = 0;

const uint BLOCK_K = 8;
const uint STRIP = 8;  // tiles
const uint WIDTH = 4;  // elements of a vector
const uint UNIT = UNALIGNED != 0 ? 1 : WIDTH;  // elements that strides count
const uint ACROSS_M = BLOCK_M / (4 * QUADS_M);
const uint ACROSS_N = BLOCK_N / (4 * QUADS_N);
const uint THREADS = ACROSS_M * ACROSS_N;  // of a slice
const uint A_LOADS = BLOCK_M * BLOCK_K / 4 / THREADS;
const uint B_LOADS = BLOCK_N * BLOCK_K / 4 / THREADS;
const uint ROWS = 4 * QUADS_M;  // of an invocation
const uint COLUMNS = 4 * QUADS_N;
// Lines of a tile that all invocations load at once.
const uint A_LINES = THREADS / (A_ALONG_K != 0 ? BLOCK_K / 4 : BLOCK_M / 4);
const uint B_LINES = THREADS / (B_ALONG_K != 0 ? BLOCK_K / 4 : BLOCK_N / 4);

// Elements of a line of a tile, where they are read one by one.
const uint A_LENGTH = A_ALONG_K != 0 ? BLOCK_K : BLOCK_M;
const uint B_LENGTH = B_ALONG_K != 0 ? BLOCK_K : BLOCK_N;

// A vector of padding avoids bank conflicts of stores along K.
const uint A_PITCH = BLOCK_M / 4 + 1;
const uint B_PITCH = BLOCK_N / 4 + 1;
const uint A_TILE = BLOCK_K * A_PITCH;
const uint B_TILE = BLOCK_K * B_PITCH;
const uint B_START = 2 * K_SLICES * A_TILE;

// Whether results are staged in shared memory, which does not speed up sliced-K.
#if defined(EPILOGUE) || defined(IMPLICIT_GEMM)
const bool PASSES = false;
#else
const bool PASSES = DIRECT_STORE == 0 && K_SLICES == 1;
#endif

// Two tiles of each operand per slice. Sliced-K interleaves K steps, so that a
// multiprocessor with one workgroup overlaps loads with arithmetic.
shared VECTOR tiles[B_START + 2 * K_SLICES * B_TILE];

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { VECTOR at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Numbers { NUMBER at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutVectors { VECTOR at[]; };

#include "matmul/arguments.glsl"
#include "matmul/result_address.glsl"
#include "matmul/simt_places.glsl"

// Registers of the step that comes to a stage of shared memory next; with
// PREFETCH_DISTANCE 2 those of the step after it are being loaded as well.
#define NEXT(stage) (stage) % PREFETCH_DISTANCE

// Whether an offset in a step lies before the start of K.
#define IN_K_TAIL(step, place) (K_TAIL != 0 && (step) * BLOCK_K + (place) < skipped)

#include "matmul/simt_unaligned.glsl"

#define FETCH(stage, number, first)                                                    \
    {                                                                                  \
        uint step = (number) * K_SLICES + slice;                                         \
        bool there = UNEVEN_SLICES == 0 || step < steps;                                      \
        if (UNALIGNED != 0) {                                                           \
            FETCH_EACH(a, stage, A_ALONG_K, A_LENGTH, A_LOADS, first)                  \
            FETCH_EACH(b, stage, B_ALONG_K, B_LENGTH, B_LOADS, first)                  \
        } else {                                                                       \
            FETCH_VECTORS(stage, first)                                                \
        }                                                                              \
    }

#define FETCH_VECTORS(stage, first)                                                    \
    {                                                                                  \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[NEXT(stage)][i] =                                                   \
                there && !(first && IN_K_TAIL(step, line_depth(i, A_ALONG_K, BLOCK_M))) \
                ? push.a.at[a_from + i * A_LINES * a_stride + step * a_next]           \
                : VECTOR(0);                                                           \
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)                                  \
            next_b[NEXT(stage)][i] =                                                   \
                there && !(first && IN_K_TAIL(step, line_depth(i, B_ALONG_K, BLOCK_N))) \
                ? push.b.at[B_AT(step, i)]                                             \
                : VECTOR(0);                                                           \
    }

#define A_AT(stage, k, vector)                                                         \
    ((2 * slice + (stage)) * A_TILE + (k) * A_PITCH + (vector))
#define B_IN(stage, k, vector)                                                         \
    (B_START + (2 * slice + (stage)) * B_TILE + (k) * B_PITCH + (vector))

#define STORE_STAGE(stage)                                                                    \
    if (UNALIGNED != 0) {                                                               \
        STORE_STAGE_EACH(a, A_AT, stage, A_ALONG_K, A_LENGTH, A_LOADS)                        \
        STORE_STAGE_EACH(b, B_IN, stage, B_ALONG_K, B_LENGTH, B_LOADS)                        \
    } else {                                                                           \
        STORE_STAGE_VECTORS(stage)                                                            \
    }

#define STORE_STAGE_VECTORS(stage)                                                            \
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

#define READ(stage, k)                                                                 \
    [[unroll]] for (uint i = 0; i < QUADS_M; ++i)                                      \
        left[(k) % 2][i] = tiles[A_AT(stage, (k) % BLOCK_K, i * ACROSS_M + y)];        \
    [[unroll]] for (uint j = 0; j < QUADS_N; ++j)                                      \
        right[(k) % 2][j] = tiles[B_IN(stage, (k) % BLOCK_K, j * ACROSS_N + x)];

void main() {
    uint rows = push.m;
    uint columns = push.n;
    uvec2 tile = gl_WorkGroupID.yx;
    uint part = GRID_MAPPED == 2 ? gl_WorkGroupID.z : 0;
    uint batch = GRID_MAPPED == 3 ? gl_WorkGroupID.z : 0;
    if (GRID_MAPPED == 0) {
        uint across = (columns - 1) / BLOCK_N + 1;
        uint down = (rows - 1) / BLOCK_M + 1;
        // Column by column in strips of rows: concurrent workgroups share operands in
        // L2.
        uint strip = linear_workgroup() / (across * STRIP) * STRIP;
        if (strip >= down) return;
        uint high = min(STRIP, down - strip);
        uint number = linear_workgroup() % (across * STRIP);
        if (number >= across * high) return;
        tile = uvec2(strip + number % high, number / high);
        part = gl_WorkGroupID.z / push.batches;
        batch = gl_WorkGroupID.z % push.batches;
    }
    // As in matmul/gemm_coopmat.comp, so that no load needs a bound.
    uint first_row = min(tile.x * BLOCK_M, push.last_row);
    uint first_column = min(tile.y * BLOCK_N, push.last_column);
    uint depth = DEPTH != 0 ? DEPTH : push.k;
    uint a_stride = A_STRIDE != 0 ? A_STRIDE : push.a_stride;
    uint b_stride = B_STRIDE != 0 ? B_STRIDE : push.b_stride;
    // The K tail comes first: missing elements are in front, masked in the first two of
    // all steps and in no others.
    const uint PAIR = 2 * BLOCK_K;
    uint missing = K_TAIL != 0 ? PAIR - 1 - (push.total - 1) % PAIR : 0;
    uint skipped = part == 0 ? missing : 0;
    uint start = part * depth - missing;
    uint along = part * depth / UNIT - missing / UNIT;

    // Lanes of a subgroup of 32 lie 8 wide and 4 high: few vectors serve all. Next to
    // each is one that reads the same on the left or on the right, which is quicker.
    uint slice = gl_LocalInvocationIndex / THREADS;
    uint self = gl_LocalInvocationIndex % THREADS;
    uint lane = self % 32;
    uint group = self / 32;
    uint x = group % (ACROSS_N / 8) * 8 + lane / 2 % 8;
    uint y = group / (ACROSS_N / 8) * 4 + lane / 16 * 2 + lane % 2;

    uvec2 a_at = UNALIGNED != 0 ? first_place(A_LENGTH) : place(0, A_ALONG_K, BLOCK_M);
    uint a_from = batch * push.a_batch + a_at.x * a_stride + a_at.y
        + (A_ALONG_K != 0 ? first_row * a_stride + along
                          : start * a_stride + first_row / UNIT);
    uvec2 b_at = UNALIGNED != 0 ? first_place(B_LENGTH) : place(0, B_ALONG_K, BLOCK_N);
    uint b_from = batch * push.b_batch + b_at.x * b_stride + b_at.y
        + (B_ALONG_K != 0 ? first_column * b_stride + along
                          : start * b_stride + first_column / UNIT);
    uint a_next = A_ALONG_K != 0 ? BLOCK_K / UNIT : BLOCK_K * a_stride;
    uint b_next = B_ALONG_K != 0 ? BLOCK_K / UNIT : BLOCK_K * b_stride;
#ifdef IMPLICIT_GEMM
    uint own_tap[B_LOADS], own_window[B_LOADS];
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {
        uvec2 from = place(i, B_ALONG_K, BLOCK_N);
        own_tap[i] = tap_vector_offset(first_column / WIDTH + from.y);
        own_window[i] = window_offset(first_column + from.x);
    }
#define B_AT(tile, i)                                                                  \
    (B_ALONG_K != 0 ? own_window[i]                                                     \
                + tap_vector_offset((part * depth + (tile) * BLOCK_K) / WIDTH                     \
                    + place(i, B_ALONG_K, BLOCK_N).y)                                  \
                    : own_tap[i]                                                       \
                + window_offset(part * depth + (tile) * BLOCK_K + place(i, B_ALONG_K, BLOCK_N).x))
#else
#define B_AT(tile, i) (b_from + (i) * B_LINES * b_stride + (tile) * b_next)
#endif

    VECTOR sum[ROWS][QUADS_N];
    [[unroll]] for (uint i = 0; i < ROWS; ++i)
        [[unroll]] for (uint j = 0; j < QUADS_N; ++j) sum[i][j] = VECTOR(0);
    VECTOR next_a[PREFETCH_DISTANCE][A_LOADS], next_b[PREFETCH_DISTANCE][B_LOADS];
    VECTOR left[2][QUADS_M], right[2][QUADS_N];
    uint own = UNEVEN_SPLITS != 0 ? min(depth, push.total - start) : depth;
    uint steps = own / BLOCK_K;
    uint count = ((steps - 1) / (2 * K_SLICES) + 1) * 2;  // of a slice
    FETCH(0, 0, true)
    STORE_STAGE(0)
    barrier();
    FETCH(1, 1, K_SLICES == 1)
    if (PREFETCH_DISTANCE == 2) FETCH(0, min(2, count - 1), false)
    READ(0, 0)
    for (uint pair = 0; pair < count; pair += 2) {
        [[unroll]] for (uint stage = 0; stage < 2; ++stage) {
            [[unroll]] for (uint k = 0; k < BLOCK_K; ++k) {
                if (k == BLOCK_K - 1) {
                    STORE_STAGE(stage ^ 1)
                    barrier();
                    FETCH(stage ^ 1, min(pair + stage + 1 + PREFETCH_DISTANCE, count - 1), false)
                    READ(stage ^ 1, 0)
                } else {
                    READ(stage, k + 1)
                }
                // Serpentine order, so that each shares an operand with the one before.
                [[unroll]] for (uint i = 0; i < ROWS; ++i)
                    [[unroll]] for (uint step = 0; step < COLUMNS; ++step) {
                        uint j = i % 2 == 0 ? step : COLUMNS - 1 - step;
                        sum[i][j / 4][j % 4] = MULTIPLY_ADD(
                            left[k % 2][i / 4][i % 4], right[k % 2][j / 4][j % 4],
                            sum[i][j / 4][j % 4]);
                    }
            }
        }
    }

    if (K_SLICES > 1) {
        // The first slice adds the others' accumulators, four rows at a time.
        const uint PASSED = 4 * QUADS_N * THREADS;
        [[unroll]] for (uint quad = 0; quad < QUADS_M; ++quad) {
            barrier();
            [[unroll]] for (uint i = 0; i < 4 * QUADS_N; ++i)
                if (slice != 0)
                    tiles[(slice - 1) * PASSED + i * THREADS + self] =
                        sum[4 * quad + i / QUADS_N][i % QUADS_N];
            barrier();
            [[unroll]] for (uint other = 0; other + 1 < K_SLICES; ++other)
                [[unroll]] for (uint i = 0; i < 4 * QUADS_N; ++i)
                    sum[4 * quad + i / QUADS_N][i % QUADS_N] +=
                        tiles[other * PASSED + i * THREADS + self];
        }
    }
    if (PASSES) {
        // Neighbours store neighbours: each invocation's sums are apart, and stored one by
        // one would each be a write of 32 bytes. A row of each at a time.
        const uint PASSED = QUADS_N * THREADS;
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            uint pass = i % 2 * PASSED;
            if (i == 0) barrier();
            [[unroll]] for (uint j = 0; j < QUADS_N; ++j) {
#ifdef BIAS
                uint row = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
                sum[i][j] += load(push.bias, min(row, rows - 1));
#endif
                tiles[pass + y * (BLOCK_N / 4) + j * ACROSS_N + x] = sum[i][j];
            }
            barrier();
            [[unroll]] for (uint e = 0; e < COLUMNS; ++e) {
                uint at = self + e * THREADS;
                uint row = first_row + 4 * (i / 4 * ACROSS_M + at / BLOCK_N) + i % 4;
                uint column = first_column + at % BLOCK_N;
                if (is_result(row, column))
                    store(push.out_, result_at(row, column), tiles[pass + at / 4][at % 4]);
            }
        }
    } else if (K_SLICES == 1 || slice == 0) {
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            uint row = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
            [[unroll]] for (uint j = 0; j < QUADS_N; ++j) {
                uint column = first_column + 4 * (j * ACROSS_N + x);
#ifdef BIAS
                sum[i][j] += load(push.bias, min(row, rows - 1));
#endif
#ifdef EPILOGUE
                if (is_result(row, column))
                    epilogue(push.epilogue, result_at(row, column) / 4, sum[i][j]);
#else
                if (DIRECT_STORE != 0) {
                    OutVectors(push.out_).at[result_at(row, column) / 4] = sum[i][j];
                } else {
                    [[unroll]] for (uint e = 0; e < 4; ++e)
                        if (is_result(row, column + e))
                            store(push.out_, result_at(row, column + e), sum[i][j][e]);
                }
#endif
            }
        }
    }
}
