// Batched GEMV and skinny GEMM: matrices are read once, in vectors
// grid    linear in groups of ACROSS vectors of columns, or ACROSS times COLUMNS columns
//         where the matrix is contiguous along K; z: batch, then split-K slices
// in      x (batch, ROWS, k), any strides in elements; matrix: vectors of 16 bytes,
//         contiguous along k or across, strides count vectors
// out     out_ (split, batch, ...), any strides; DTYPE, or ACC with OUT_ACC; an epilogue
//         takes rows one after the other
//         with GATHERED x is (rows, k), and batch `i` the product of row i / share with the
//         matrix that `numbers` has for it; error: a number out of range
//         with UNALIGNED lines of the matrix and rows of x begin anywhere, and all strides
//         count elements; `depth` is K, which need not be whole vectors, and x and matrix
//         point to the vectors in which their first elements are, x_start and matrix_start
// consts  ROWS, ACROSS, ALONG_K, X_VECTORS: x has vector loads too; STEPS, COLUMNS;
//         LOCAL_X is a multiple of ACROSS
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/horizontal.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#if DTYPE == DTYPE_INT8
#include "lib/dot_int8.glsl"
#endif
#ifdef GATHERED
#include "lib/matrix_number.glsl"
#endif
#ifdef UNALIGNED
#include "lib/unaligned_load.glsl"
#endif

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint ACROSS = 16;
layout(constant_id = 5) const uint ALONG_K = 0;
layout(constant_id = 6) const uint X_VECTORS = 0;
layout(constant_id = 7) const uint STEPS = 1;  // K vectors per loop iteration
layout(constant_id = 8) const uint COLUMNS = 1;  // of an invocation; 1 if not ALONG_K

// Invocations loop over K in vectors: one load per column where the matrix is
// contiguous along K, otherwise one per k.
const uint VECTOR = 16 / BYTES;
const uint QUADS = VECTOR / 4;
const uint WIDTH = ALONG_K != 0 ? COLUMNS : VECTOR;  // columns of one invocation
const uint SUMS = ALONG_K != 0 ? COLUMNS : QUADS;  // vec4 accumulators
const uint LOADS = STEPS * WIDTH;
const uint LANES = gl_WorkGroupSize.x / ACROSS;

// Where they are few, the vectors of x of an iteration are loaded before its other
// loads.
const uint MOST_EARLY = 8;
const bool EARLY = ROWS * STEPS <= MOST_EARLY;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };

BEGIN_ARGUMENTS
#ifdef UNALIGNED
    Vectors x;
#else
    In x;
#endif
    Vectors matrix;
    Out out_;
    uint n;
    uint k;  // K of a split-K slice, whole vectors
    uint batches;
    uint x_row;
    uint x_column;
    uint x_batch;
    uint line;  // of the matrix
    uint matrix_batch;
    uint out_row;
    uint out_column;
    uint out_batch;
#ifdef UNALIGNED
    uint depth;
    uint x_start;
    uint x_last;  // vector that has elements
    uint matrix_start;
    uint matrix_last;
#endif
#ifdef GATHERED
    Numbers numbers;
    IndexSlot error;
    uint matrices;
    uint share;
#endif
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
END_ARGUMENTS

// Padding avoids bank conflicts between the columns of a vector.
shared ACC parts[WIDTH][gl_WorkGroupSize.x + 32 / WIDTH];
#ifdef EPILOGUE
shared ACC totals[ACROSS * WIDTH];
#endif

// Elements 4 * quad to 4 * quad + 3 of a vector.
ACC4 unpacked(uvec4 vector, uint quad) {
#if BYTES == 2
    uvec2 words = uvec2(vector[quad * 2], vector[quad * 2 + 1]);
#if DTYPE == DTYPE_FLOAT16
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
#else
    return uintBitsToFloat(uvec4(words << 16, words & 0xffff0000u).xzyw);
#endif
#elif DTYPE == DTYPE_INT8
    return ivec4(int(vector[quad])) << ivec4(24, 16, 8, 0) >> 24;
#else
    return uintBitsToFloat(vector);
#endif
}

uint bits_of(ACC value) {
#if DTYPE == DTYPE_FLOAT16
    return packHalf2x16(vec2(value, 0.0));
#elif DTYPE == DTYPE_INT8
    return uint(value) & 0xffu;
#else
    return floatBitsToUint(value);
#endif
}

// Multiply-add of two vectors along K into the vec4 `sum`.
ACC4 added(uvec4 x, uvec4 vector, uint quad, ACC4 sum) {
#if DTYPE == DTYPE_INT8
    sum[quad] += dot_int8(int(x[quad]), int(vector[quad]));
    return sum;
#else
    return multiply_add(unpacked(x, quad), unpacked(vector, quad), sum);
#endif
}

#ifdef UNALIGNED
// VECTOR elements from one on, of which `count` are wanted and the rest is 0.
uvec4 unaligned(Vectors x, uint element, uint last, int count) {
    uint at = element / VECTOR;
    uvec4 low = x.at[min(at, last)], high = x.at[min(at + 1, last)];
    return first_bits(shifted(low, high, element % VECTOR * BYTES), 8 * BYTES * count);
}

uvec4 x_vector(uint batch, uint row, uint k) {
    uint from = push.x_start + batch * push.x_batch + row * push.x_row;
    int count = int(push.depth - k * VECTOR);
    if (X_VECTORS != 0) return unaligned(push.x, from + k * VECTOR, push.x_last, count);
    uvec4 vector = uvec4(0);
    [[unroll]] for (int d = 0; d < VECTOR; ++d) {
        uint element = from + min(k * VECTOR + d, push.depth - 1) * push.x_column;
        uint bytes = element % VECTOR * BYTES;
        uint bits = push.x.at[element / VECTOR][bytes / 4] >> 8 * bytes % 32;
#if BYTES < 4
        bits &= (1u << 8 * BYTES) - 1;
#endif
        if (d < count) vector[d * BYTES / 4] |= bits << 8 * BYTES * d % 32;
    }
    return vector;
}

// The vector number k of a line along K, or that number `e` of line k * VECTOR + e.
uvec4 matrix_vector(Vectors matrix, uint from, uint line, uint k, uint e) {
    uint along = k * VECTOR, last = push.matrix_last;
    if (ALONG_K != 0) return unaligned(matrix, from + along, last, int(push.depth - along));
    along += e;
    int count = along < push.depth ? int(VECTOR) : 0;
    return unaligned(matrix, from + min(along, push.depth - 1) * line, last, count);
}
#else
// Elements number k * VECTOR and on of a row of x, as they lie in memory.
uvec4 x_vector(uint batch, uint row, uint k) {
    uint from = batch * push.x_batch + row * push.x_row + k * VECTOR * push.x_column;
    if (X_VECTORS != 0) return Vectors(push.x).at[from / VECTOR];
    uvec4 vector = uvec4(0);
    [[unroll]] for (uint d = 0; d < VECTOR; ++d) {
        uint bits = bits_of(load(push.x, from + d * push.x_column));
#if DTYPE == DTYPE_BFLOAT16
        bits >>= 16;
#endif
        vector[d * BYTES / 4] |= bits << 8 * BYTES * d % 32;
    }
    return vector;
}

uvec4 matrix_vector(Vectors matrix, uint from, uint line, uint k, uint e) {
    return matrix.at[ALONG_K != 0 ? from + k : from + (k * VECTOR + e) * line];
}
#endif

void main() {
    READ_ARGUMENTS
    uint thread = gl_LocalInvocationIndex;
    uint part = gl_WorkGroupID.z / push.batches;
    uint batch = gl_WorkGroupID.z % push.batches;
    uint matrix_batch = batch;
#ifdef GATHERED
    matrix_batch = matrix_number(push.numbers, batch, push.matrices, push.error);
    batch /= push.share;
#endif
    // Coalesced: neighbours load adjacent vectors.
    uint across = ALONG_K != 0 ? thread / LANES : thread % ACROSS;
    uint lane = ALONG_K != 0 ? thread % LANES : thread / ACROSS;
    uint wanted = (push.n - 1) / (ALONG_K != 0 ? 1 : VECTOR);
    uint first = OWN_WORKGROUP * ACROSS * COLUMNS;
    if (first > wanted) return;
    uint depth = push.k / VECTOR;
    uint start = part * depth;
#ifdef UNALIGNED
    uint whole = (push.depth + VECTOR - 1) / VECTOR;
    depth = start < whole ? min(depth, whole - start) : 0;
#endif
    uint line = push.line;
    Vectors matrix = push.matrix;
    uint from[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) {
        uint column = min(first + across * COLUMNS + (ALONG_K != 0 ? i : 0), wanted);
        from[i] = matrix_batch * push.matrix_batch;
#ifdef UNALIGNED
        from[i] += push.matrix_start + column * (ALONG_K != 0 ? line : VECTOR);
#else
        from[i] += column * (ALONG_K != 0 ? line : 1);
#endif
    }

    ACC4 sum[ROWS][SUMS];
    [[unroll]] for (uint row = 0; row < ROWS; ++row)
        [[unroll]] for (uint i = 0; i < SUMS; ++i) sum[row][i] = ACC4(0);
    for (uint at = lane; at < depth; at += LANES * STEPS) {
        uvec4 early[MOST_EARLY], vectors[LOADS];
        if (EARLY)
            [[unroll]] for (uint i = 0; i < ROWS * STEPS; ++i) {
                uint k = start + min(at + i / ROWS * LANES, depth - 1);
                early[i % MOST_EARLY] = x_vector(batch, i % ROWS, k);
            }
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            uint k = start + min(at + i / WIDTH * LANES, depth - 1);
            uint e = i % WIDTH;
            vectors[i] = matrix_vector(matrix, from[ALONG_K != 0 ? e % SUMS : 0], line, k, e);
        }
        [[unroll]] for (uint step = 0; step < STEPS; ++step) {
            uint k = at + step * LANES;
            if (k < depth) {
                uvec4 x[ROWS];
                [[unroll]] for (uint row = 0; row < ROWS; ++row)
                    x[row] = EARLY ? early[(step * ROWS + row) % MOST_EARLY]
                                   : x_vector(batch, row, start + k);
                [[unroll]] for (uint d = 0; d < VECTOR; ++d) {
                    if (ALONG_K == 0) {
                        [[unroll]] for (uint i = 0; i < SUMS; ++i) {
                            ACC4 elements = unpacked(vectors[step * WIDTH + d], i);
                            [[unroll]] for (uint row = 0; row < ROWS; ++row)
                                sum[row][i] = multiply_add(
                                    ACC4(unpacked(x[row], d / 4)[d % 4]), elements,
                                    sum[row][i]);
                        }
                    } else if (d < QUADS) {
                        [[unroll]] for (uint row = 0; row < ROWS; ++row)
                            [[unroll]] for (uint i = 0; i < SUMS; ++i)
                                sum[row][i] = added(
                                    x[row], vectors[step * WIDTH + i], d, sum[row][i]);
                    }
                }
            }
        }
    }

    uint out_from = gl_WorkGroupID.z * push.out_batch;
    // Unrolled, for accumulators with a dynamic index are not kept in registers.
    [[unroll]] for (uint row = 0; row < ROWS; ++row) {
        barrier();
        [[unroll]] for (uint e = 0; e < WIDTH; ++e) {
            ACC4 quad = sum[row][ALONG_K != 0 ? e % SUMS : e / 4 % SUMS];
            parts[e][thread] = ALONG_K != 0 ? quad.x + quad.y + (quad.z + quad.w)
                                            : quad[e % 4];
        }
        barrier();
        for (uint at = thread; at < ACROSS * WIDTH; at += gl_WorkGroupSize.x) {
            uint n = first * (ALONG_K != 0 ? 1 : VECTOR) + at;
            uint group = at / WIDTH;
            uint to = out_from + row * push.out_row + n * push.out_column;
            ACC total = ACC(0);
            for (uint other = 0; other < LANES; ++other)
                total += parts[at % WIDTH][ALONG_K != 0 ? group * LANES + other
                                                        : other * ACROSS + group];
#ifdef EPILOGUE
            totals[at] = total;
#else
            if (n < push.n) store(push.out_, to, total);
#endif
        }
#ifdef EPILOGUE
        barrier();
        for (uint quad = thread; quad < ACROSS * WIDTH / 4; quad += gl_WorkGroupSize.x) {
            uint n = first * (ALONG_K != 0 ? 1 : VECTOR) + 4 * quad;
            ACC4 values = ACC4(totals[4 * quad], totals[4 * quad + 1],
                totals[4 * quad + 2], totals[4 * quad + 3]);
            if (n < push.n)
                epilogue(push.epilogue, (out_from + row * push.out_row + n) / 4, values);
        }
#endif
    }
}
