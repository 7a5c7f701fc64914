// Batched matrix product on the matrix units: KHR cooperative matrices of a subgroup
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: batch, then parts of the depth
// in      a, b: 16-bit floats in vectors of 8, the depth padded to whole BLOCK_K, or
//         with RAGGED to whole vectors; strides and batch strides count vectors. DTYPE
//         float32: bfloat16 pairs, see matmul/pack.comp. DTYPE int8, with OUT_ACC: in
//         vectors of 16
// out     out_ (batch, m, n), contiguous; DTYPE, or ACC with OUT_ACC
//         With PATCHES b is read from images: see lib/patches.glsl; with BIAS a number
//         is added to each row
// consts  BLOCK_M, BLOCK_N, BLOCK_K, SUB_M, SUB_N, SUBGROUP, A_ALONG_K, B_ALONG_K,
//         UNEVEN, RAGGED, with int8 EDGE_K; DEPTH, A_STRIDE, B_STRIDE: sizes of a
//         shape that recurs, or 0
// source  NVIDIA's vk_cooperative_matrix_perf; gemm tiles chosen by measurement
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/element.glsl"
#include "lib/index.glsl"
// Results are float16 before an epilogue, or anything else, takes them.
#if DTYPE == DTYPE_FLOAT16 && defined(DEVICE_ROUNDING) && !defined(OUT_ACC)            \
    && !defined(BIAS)
#define ROUNDED
#endif
#include "lib/epilogue.glsl"
#if DTYPE == DTYPE_FLOAT16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define ELEMENT float16_t
#elif DTYPE == DTYPE_INT8
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define ELEMENT int8_t
#else
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#endif
#ifdef FLOAT16_SUMS
#define SUM float16_t
#else
#define SUM ACC
#endif
#define SPLIT (DTYPE == DTYPE_FLOAT32)

// With WIDE_STORES results leave in vectors of 16 bytes, of which rows must then be
// made. Float16 passes through shared memory as such, if the device may round it.
#if defined(WIDE_STORES) && !defined(EPILOGUE) && !defined(BIAS)                       \
    && (DTYPE != DTYPE_FLOAT16 || defined(ROUNDED) || defined(OUT_ACC))
#define WIDE
#endif
#ifdef ROUNDED
#define STORED float16_t
#define STORED_BYTES 2
#else
#define STORED ACC
#define STORED_BYTES 4
#endif

layout(constant_id = 3) const uint BLOCK_M = 128;
layout(constant_id = 4) const uint BLOCK_N = 128;
layout(constant_id = 5) const uint BLOCK_K = 64;
layout(constant_id = 6) const uint SUB_M = 64;
layout(constant_id = 7) const uint SUB_N = 64;
layout(constant_id = 8) const uint SUBGROUP = 32;
layout(constant_id = 9) const uint A_ALONG_K = 1;
layout(constant_id = 10) const uint B_ALONG_K = 0;
layout(constant_id = 11) const uint DEPTH = 0;
layout(constant_id = 12) const uint A_STRIDE = 0;
layout(constant_id = 13) const uint B_STRIDE = 0;
layout(constant_id = 14) const uint UNEVEN = 0;
layout(constant_id = 16) const uint RAGGED = 0;

const uint EDGE = 16;  // of a fragment, which is EDGE_K deep
#if DTYPE == DTYPE_INT8
layout(constant_id = 15) const uint EDGE_K = 32;
const uint WIDTH = 16;  // elements of a vector
#else
const uint EDGE_K = EDGE;
const uint WIDTH = 8;
#endif
const uint ACROSS_M = BLOCK_M / SUB_M;
const uint ACROSS_N = BLOCK_N / SUB_N;
const uint THREADS = ACROSS_M * ACROSS_N * SUBGROUP;
const uint FRAGMENTS_M = SUB_M / EDGE;
const uint FRAGMENTS_N = SUB_N / EDGE;

// Tiles lie in shared memory as in global memory: lines of vectors along the operand's
// contiguous dimension. A vector of padding keeps lines off one another's banks.
const uint A_LINES = A_ALONG_K != 0 ? BLOCK_M : BLOCK_K;
const uint B_LINES = B_ALONG_K != 0 ? BLOCK_N : BLOCK_K;
const uint A_VECTORS = (A_ALONG_K != 0 ? BLOCK_K : BLOCK_M) / WIDTH;
const uint B_VECTORS = (B_ALONG_K != 0 ? BLOCK_K : BLOCK_N) / WIDTH;
const uint A_PITCH = A_VECTORS + 1;
const uint B_PITCH = B_VECTORS + 1;
const uint A_LOADS = A_LINES * A_VECTORS / THREADS;
const uint B_LOADS = B_LINES * B_VECTORS / THREADS;
const uint B_START = A_LINES * A_PITCH;

// Afterwards each subgroup passes strips of its sums through a part of the same memory.
const uint STRIP_PITCH = SUB_N * STORED_BYTES / 16 + 1;
const uint STRIP = EDGE * STRIP_PITCH;
const uint STRIPS = ACROSS_M * ACROSS_N * STRIP;
const uint TILES = B_START + B_LINES * B_PITCH;
shared uvec4 tiles[TILES > STRIPS ? TILES : STRIPS];

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    Vectors a;
    Vectors b;
    Out out_;
    uint m;
    uint n;
    uint k;  // of each part but the last, which has what is left of the total
    uint total;
    uint batches;
    uint a_stride;
    uint b_stride;
    uint a_batch;
    uint b_batch;
    uint last_row;  // where the last tiles start
    uint last_column;
#ifdef BIAS
    In bias;
#endif
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;
#include "lib/product_result.glsl"
#ifdef PATCHES
shared uint places[BLOCK_K];  // of the lines of B fetched next, if they are its depth
#endif

#define A_FRAGMENT coopmat<ELEMENT, gl_ScopeSubgroup, EDGE, EDGE_K, gl_MatrixUseA>
#define B_FRAGMENT coopmat<ELEMENT, gl_ScopeSubgroup, EDGE_K, EDGE, gl_MatrixUseB>
#define C_FRAGMENT coopmat<SUM, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>
#define STORED_FRAGMENT                                                                \
    coopmat<STORED, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>

A_FRAGMENT fragment_a(uint m, uint k) {
    A_FRAGMENT fragment;
    if (A_ALONG_K != 0)
        coopMatLoad(fragment, tiles, m * A_PITCH + k / WIDTH, A_PITCH,
            gl_CooperativeMatrixLayoutRowMajor);
    else
        coopMatLoad(fragment, tiles, k * A_PITCH + m / WIDTH, A_PITCH,
            gl_CooperativeMatrixLayoutColumnMajor);
    return fragment;
}

B_FRAGMENT fragment_b(uint k, uint n) {
    B_FRAGMENT fragment;
    if (B_ALONG_K != 0)
        coopMatLoad(fragment, tiles, B_START + n * B_PITCH + k / WIDTH, B_PITCH,
            gl_CooperativeMatrixLayoutColumnMajor);
    else
        coopMatLoad(fragment, tiles, B_START + k * B_PITCH + n / WIDTH, B_PITCH,
            gl_CooperativeMatrixLayoutRowMajor);
    return fragment;
}

// Results leave TOGETHER at a time, from `place` of a line that starts at `from` in shared
// memory.
#if defined(WIDE)
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutVectors { uvec4 at[]; };
#if STORED_BYTES == 4 && DTYPE == DTYPE_BFLOAT16 && !defined(OUT_ACC)
const uint TOGETHER = 8;
uint two(uint first, uint second) {
    return to_bfloat16(uintBitsToFloat(first)) | to_bfloat16(uintBitsToFloat(second)) << 16;
}
uvec4 results(uint from, uint place) {
    uvec4 left = tiles[from + 2 * place], right = tiles[from + 2 * place + 1];
    return uvec4(two(left.x, left.y), two(left.z, left.w), two(right.x, right.y),
        two(right.z, right.w));
}
#else
const uint TOGETHER = 16 / STORED_BYTES;
uvec4 results(uint from, uint place) { return tiles[from + place]; }
#endif
void leave(uint row, uint column, uint from, uint place) {
    OutVectors(push.out_).at[result_at(row, column) / TOGETHER] = results(from, place);
}
#else
const uint TOGETHER = 4;
void leave(uint row, uint column, uint from, uint place) {
    uvec4 words = tiles[from + place * STORED_BYTES / 4];
#if STORED_BYTES == 2
    uvec2 halves = place % 2 == 0 ? words.xy : words.zw;
    vec4 values = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
#elif IS_FLOAT
    vec4 values = uintBitsToFloat(words);
#else
    ACC4 values = ACC4(words);
#endif
#ifdef BIAS
    values += load(push.bias, row);
#endif
#ifdef EPILOGUE
    epilogue(push.epilogue, result_at(row, column) / 4, values);
#else
    [[unroll]] for (uint e = 0; e < TOGETHER; ++e)
        if (is_result(row, column + e))
            store(push.out_, result_at(row, column + e), values[e]);
#endif
}
#endif

void main() {
    uint rows = push.m;
    uint columns = push.n;
    uint across = (columns - 1) / BLOCK_N + 1;
    uint first_row = linear_workgroup() / across * BLOCK_M;
    if (first_row >= rows) return;
    // The last tiles move back over their neighbours and write the same values again,
    // so that no load needs a bound; operands with less than a tile are padded.
    first_row = min(first_row, push.last_row);
    uint first_column = min(linear_workgroup() % across * BLOCK_N, push.last_column);
    uint depth = DEPTH != 0 ? DEPTH : push.k;
    // A depth that is not of whole tiles has what is missing in front, where the first
    // loads, and no others, leave it out.
    uint missing = RAGGED != 0 ? BLOCK_K - 1 - (push.total - 1) % BLOCK_K : 0;
    uint a_stride = A_STRIDE != 0 ? A_STRIDE : push.a_stride;
    uint b_stride = B_STRIDE != 0 ? B_STRIDE : push.b_stride;
    uint part = gl_WorkGroupID.z / push.batches;
    uint skipped = part == 0 ? missing : 0;
    uint batch = gl_WorkGroupID.z % push.batches;

    uint thread = gl_LocalInvocationIndex;
    uint a_line = thread / A_VECTORS;
    uint b_line = thread / B_VECTORS;
    uint a_vector = thread % A_VECTORS;
    uint b_vector = thread % B_VECTORS;
    Vectors a = push.a;
    Vectors b = push.b;
    uint a_from = batch * push.a_batch + a_line * a_stride + a_vector;
    uint b_from = batch * push.b_batch + b_line * b_stride + b_vector;
    uint start = part * depth - missing;
    uint start_vector = part * depth / WIDTH - missing / WIDTH;
    a_from += A_ALONG_K != 0 ? first_row * a_stride + start_vector
                             : start * a_stride + first_row / WIDTH;
    b_from += B_ALONG_K != 0 ? first_column * b_stride + start_vector
                             : start * b_stride + first_column / WIDTH;
    uint a_next = A_ALONG_K != 0 ? A_VECTORS : BLOCK_K * a_stride;
    uint b_next = B_ALONG_K != 0 ? B_VECTORS : BLOCK_K * b_stride;
    uint a_step = THREADS / A_VECTORS * a_stride;
    uint b_step = THREADS / B_VECTORS * b_stride;
    uint a_to = a_line * A_PITCH + a_vector;
    uint b_to = B_START + b_line * B_PITCH + b_vector;
#ifdef PATCHES
    const uint LINES_APART = THREADS / B_VECTORS;
    uint own_tap = tap_at(first_column / WIDTH + b_vector);
    uint own_place[B_LOADS];
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i)
        own_place[i] = place_at(first_column + b_line + i * LINES_APART);
    if (B_ALONG_K == 0 && thread < BLOCK_K) places[thread] = place_at(part * depth + thread);
    barrier();
#define B_AT(tile, i)                                                                  \
    (B_ALONG_K != 0                                                                    \
            ? own_place[i] + tap_at((part * depth + (tile) * BLOCK_K) / WIDTH + b_vector) \
            : own_tap + places[b_line + (i) * LINES_APART])
#else
#define B_AT(tile, i) (b_from + (tile) * b_next + (i) * b_step)
#endif

    uint sub_row = gl_SubgroupID / ACROSS_N * SUB_M;
    uint sub_column = gl_SubgroupID % ACROSS_N * SUB_N;
    C_FRAGMENT sum[FRAGMENTS_M][FRAGMENTS_N];
    [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
        [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)
            sum[i][j] = C_FRAGMENT(SUM(0));

    uint own = UNEVEN != 0 ? min(depth, push.total + missing - part * depth) : depth;
    uint count = own / BLOCK_K;
    uvec4 next_a[A_LOADS], next_b[B_LOADS];
    [[unroll]] for (uint i = 0; i < A_LOADS; ++i) {
        uint at = A_ALONG_K != 0 ? a_vector * WIDTH : a_line + i * (THREADS / A_VECTORS);
        bool left_out = RAGGED != 0 && at < skipped;
        next_a[i] = left_out ? uvec4(0) : a.at[a_from + i * a_step];
    }
    [[unroll]] for (uint i = 0; i < B_LOADS; ++i) {
        uint at = B_ALONG_K != 0 ? b_vector * WIDTH : b_line + i * (THREADS / B_VECTORS);
        bool left_out = RAGGED != 0 && at < skipped;
        next_b[i] = left_out ? uvec4(0) : b.at[B_AT(0, i)];
    }
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        barrier();
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)
            tiles[a_to + i * (THREADS / A_VECTORS) * A_PITCH] = next_a[i];
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)
            tiles[b_to + i * (THREADS / B_VECTORS) * B_PITCH] = next_b[i];
        // The last tile is fetched once more, which is cheaper than a branch.
        uint ahead = min(tile + 1, count - 1);
#ifdef PATCHES
        if (B_ALONG_K == 0 && thread < BLOCK_K)
            places[thread] = place_at(part * depth + ahead * BLOCK_K + thread);
#endif
        barrier();
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)
            next_a[i] = a.at[a_from + ahead * a_next + i * a_step];
        [[unroll]] for (uint i = 0; i < B_LOADS; ++i)
            next_b[i] = b.at[B_AT(ahead, i)];
#if SPLIT
        // High parts, then low parts; low times low is too small to matter.
        [[unroll]] for (uint k = 0; k < BLOCK_K / 2; k += EDGE) {
            A_FRAGMENT high[FRAGMENTS_M], low[FRAGMENTS_M];
            [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i) {
                high[i] = fragment_a(sub_row + i * EDGE, k);
                low[i] = fragment_a(sub_row + i * EDGE, k + BLOCK_K / 2);
            }
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) {
                B_FRAGMENT high_b = fragment_b(k, sub_column + j * EDGE);
                B_FRAGMENT low_b = fragment_b(k + BLOCK_K / 2, sub_column + j * EDGE);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(low[i], high_b, sum[i][j]);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(high[i], low_b, sum[i][j]);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(high[i], high_b, sum[i][j]);
            }
        }
#else
        [[unroll]] for (uint k = 0; k < BLOCK_K; k += EDGE_K) {
            A_FRAGMENT left[FRAGMENTS_M];
            [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                left[i] = fragment_a(sub_row + i * EDGE, k);
            [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j) {
                B_FRAGMENT right = fragment_b(k, sub_column + j * EDGE);
                [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i)
                    sum[i][j] = coopMatMulAdd(left[i], right, sum[i][j]);
            }
        }
#endif
    }

    uint out_row = first_row + sub_row;
    uint out_column = first_column + sub_column;
    // The place of an element in a fragment is known in memory only. Storing fragments
    // straight to `out_` is not faster (H200: 70 against 67 TFLOP/s at one clock).
    barrier();
    uint strip = gl_SubgroupID * STRIP;
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < FRAGMENTS_M; ++i) {
        [[unroll]] for (uint j = 0; j < FRAGMENTS_N; ++j)
            coopMatStore(STORED_FRAGMENT(sum[i][j]), tiles,
                strip + j * (EDGE * STORED_BYTES / 16), STRIP_PITCH,
                gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
        for (uint at = lane; at < EDGE * SUB_N / TOGETHER; at += SUBGROUP) {
            uint line = at / (SUB_N / TOGETHER);
            uint place = at % (SUB_N / TOGETHER);
            uint row = out_row + i * EDGE + line;
            uint column = out_column + place * TOGETHER;
            // The first of neighbours may be none where others are: see lib/patches.glsl.
            if (row < rows && column < columns)
                leave(row, column, strip + line * STRIP_PITCH, place);
        }
        subgroupBarrier();
    }
}
