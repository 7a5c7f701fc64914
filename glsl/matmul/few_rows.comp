// Batched product of a few rows with matrices that are read once, in vectors
// grid    linear in groups of ACROSS columns, or vectors of columns; z: batch, then
//         parts of the depth
// in      x (batch, ROWS, k), any strides in elements; matrix: vectors of 16 bytes,
//         contiguous along k or across, strides count vectors
// out     out_ (part, batch, ...), any strides; DTYPE, or ACC with OUT_ACC
// consts  ROWS, ACROSS, ALONG_K, X_VECTORS: x lies in vectors as well; LOCAL_X is a
//         multiple of ACROSS
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/element.glsl"
#include "lib/index.glsl"
#if DTYPE == DTYPE_INT8
#include "lib/dot.glsl"
#endif

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint ACROSS = 16;
layout(constant_id = 5) const uint ALONG_K = 0;
layout(constant_id = 6) const uint X_VECTORS = 0;

// Invocations go through the depth in vectors, of which the matrix has one to load for
// each column where it lies along the depth; where it lies across, one for each depth.
const uint VECTOR = 16 / BYTES;
const uint WIDTH = ALONG_K != 0 ? 1 : VECTOR;  // columns of one invocation
const uint LOADS = ALONG_K != 0 ? 4 : VECTOR;
const uint STEPS = ALONG_K != 0 ? LOADS : 1;  // vectors of the depth in one round
const uint LANES = gl_WorkGroupSize.x / ACROSS;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Vectors matrix;
    Out out_;
    uint n;
    uint k;  // of each part, whole vectors
    uint batches;
    uint x_row;
    uint x_column;
    uint x_batch;
    uint line;  // of the matrix
    uint matrix_batch;
    uint out_row;
    uint out_column;
    uint out_batch;
} push;

// What is added keeps the columns of a vector off one another's banks.
shared ACC parts[WIDTH][gl_WorkGroupSize.x + 32 / WIDTH];

ACC unpacked(uvec4 vector, uint e) {
#if DTYPE == DTYPE_FLOAT16
    return unpackHalf2x16(vector[e / 2])[e % 2];
#elif DTYPE == DTYPE_BFLOAT16
    return uintBitsToFloat(e % 2 != 0 ? vector[e / 2] & 0xffff0000u : vector[e / 2] << 16);
#elif DTYPE == DTYPE_INT8
    return bitfieldExtract(int(vector[e / 4]), 8 * int(e % 4), 8);
#else
    return uintBitsToFloat(vector[e]);
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

void main() {
    uint thread = gl_LocalInvocationIndex;
    uint part = gl_WorkGroupID.z / push.batches;
    uint batch = gl_WorkGroupID.z % push.batches;
    // Neighbours load what lies side by side.
    uint across = ALONG_K != 0 ? thread / LANES : thread % ACROSS;
    uint lane = ALONG_K != 0 ? thread % LANES : thread / ACROSS;
    uint wanted = (push.n - 1) / WIDTH;
    uint first = linear_workgroup() * ACROSS;
    if (first > wanted) return;
    uint column = min(first + across, wanted);
    uint depth = push.k / VECTOR;
    uint start = part * depth;
    uint from = batch * push.matrix_batch + (ALONG_K != 0 ? column * push.line : column);
    uint line = push.line;
    Vectors matrix = push.matrix;

    ACC sum[ROWS][WIDTH];
    [[unroll]] for (uint row = 0; row < ROWS; ++row)
        [[unroll]] for (uint e = 0; e < WIDTH; ++e) sum[row][e] = ACC(0);
    for (uint at = lane; at < depth; at += LANES * STEPS) {
        uvec4 vectors[LOADS];
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            uint k = start + min(at + (ALONG_K != 0 ? i * LANES : 0), depth - 1);
            vectors[i] = matrix.at[from + (ALONG_K != 0 ? k : (k * VECTOR + i) * line)];
        }
        [[unroll]] for (uint step = 0; step < STEPS; ++step) {
            uint k = at + step * LANES;
            if (k < depth) {
                [[unroll]] for (uint row = 0; row < ROWS; ++row) {
                    uvec4 x = x_vector(batch, row, start + k);
#if DTYPE == DTYPE_INT8
                    if (ALONG_K != 0) {
                        [[unroll]] for (uint word = 0; word < 4; ++word)
                            sum[row][0] +=
                                dot_int8(int(x[word]), int(vectors[step][word]));
                        continue;
                    }
#endif
                    [[unroll]] for (uint d = 0; d < VECTOR; ++d)
                        [[unroll]] for (uint e = 0; e < WIDTH; ++e) {
                            uvec4 vector = vectors[ALONG_K != 0 ? step : d];
                            ACC element = unpacked(vector, ALONG_K != 0 ? d : e);
                            sum[row][e] =
                                multiply_add(unpacked(x, d), element, sum[row][e]);
                        }
                }
            }
        }
    }

    uint out_from = gl_WorkGroupID.z * push.out_batch;
    for (uint row = 0; row < ROWS; ++row) {
        barrier();
        [[unroll]] for (uint e = 0; e < WIDTH; ++e) parts[e][thread] = sum[row][e];
        barrier();
        for (uint at = thread; at < ACROSS * WIDTH; at += gl_WorkGroupSize.x) {
            uint n = first * WIDTH + at;
            ACC total = ACC(0);
            for (uint other = 0; other < LANES; ++other)
                total += parts[at % WIDTH][ALONG_K != 0 ? at * LANES + other
                                                        : other * ACROSS + at / WIDTH];
            if (n < push.n)
                store(push.out_, out_from + row * push.out_row + n * push.out_column, total);
        }
    }
}
