// Batched product of a few rows with matrices that are read once, in vectors
// grid    linear in groups of ACROSS columns, or vectors of columns; z: batch, then
//         parts of the depth
// in      x (batch, ROWS, k), any strides in elements; matrix: vectors of 16 bytes,
//         contiguous along k or across, strides count vectors
// out     out_ (part, batch, ...), any strides
// consts  ROWS, ACROSS, ALONG_K; LOCAL_X is a multiple of ACROSS
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/element.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint ACROSS = 16;
layout(constant_id = 5) const uint ALONG_K = 0;

const uint VECTOR = 16 / BYTES;
const uint WIDTH = ALONG_K != 0 ? 1 : VECTOR;  // columns of one invocation
const uint DEPTH = ALONG_K != 0 ? VECTOR : 1;  // and how deep each of its loads is
const uint LANES = gl_WorkGroupSize.x / ACROSS;
const uint UNROLL = 4;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Vectors matrix;
    Out out_;
    uint n;
    uint k;  // of each part
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
#else
    return uintBitsToFloat(vector[e]);
#endif
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
    uint depth = push.k / DEPTH;
    uint start = part * depth;
    uint step = ALONG_K != 0 ? 1 : push.line;
    uint from = batch * push.matrix_batch + (ALONG_K != 0 ? column * push.line : column);
    uint x_from = batch * push.x_batch;
    In x = push.x;
    Vectors matrix = push.matrix;
    uint x_row = push.x_row;
    uint x_column = push.x_column;

    ACC sum[ROWS][WIDTH];
    [[unroll]] for (uint row = 0; row < ROWS; ++row)
        [[unroll]] for (uint e = 0; e < WIDTH; ++e) sum[row][e] = ACC(0);
    for (uint at = lane; at < depth; at += LANES * UNROLL) {
        uvec4 vectors[UNROLL];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u)
            vectors[u] =
                matrix.at[from + (start + min(at + u * LANES, depth - 1)) * step];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint k = at + u * LANES;
            if (k >= depth) break;
            [[unroll]] for (uint row = 0; row < ROWS; ++row)
                [[unroll]] for (uint d = 0; d < DEPTH; ++d) {
                    ACC value = load(
                        x, x_from + row * x_row + ((start + k) * DEPTH + d) * x_column);
                    [[unroll]] for (uint e = 0; e < WIDTH; ++e)
                        sum[row][e] =
                            multiply_add(value, unpacked(vectors[u], d + e), sum[row][e]);
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
