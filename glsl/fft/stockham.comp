// Discrete Fourier transforms of rows, in shared memory
// grid    one workgroup for ROWS rows
// in      x (rows, N) complex64; table (N), exp(-2 pi i k / N)
// out     out_ (rows, N) complex64, times scale
// consts  N: a product of the radices; ROWS; INVERSE: the conjugate factors
// source  Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992,
//         section 1.7: the mixed-radix Stockham autosort framework
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint ROWS = 1;
layout(constant_id = 5) const uint INVERSE = 0;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly
    buffer Numbers { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly
    buffer Results { vec2 at[]; };

layout(push_constant, std430) uniform Push {
    Numbers x;
    Numbers table;
    Results out_;
    uint rows;
    // Four bits for each pass, the first lowest
    uint radices;
    float scale;
} push;

shared vec2 data[2][N * ROWS];

vec2 turned(vec2 value, vec2 factor) {
    if (INVERSE != 0) factor.y = -factor.y;
    return vec2(
        value.x * factor.x - value.y * factor.y, value.x * factor.y + value.y * factor.x);
}

void main() {
    Numbers x = push.x, table = push.table;
    Results out_ = push.out_;
    uint first = linear_workgroup() * ROWS;
    if (first >= push.rows) return;
    uint count = min(ROWS, push.rows - first) * N;
    uint stride = gl_WorkGroupSize.x;
    for (uint i = gl_LocalInvocationIndex; i < count; i += stride)
        data[0][i] = x.at[first * N + i];

    uint now = 0, done = 1;
    for (uint left = push.radices; left != 0; left >>= 4) {
        uint radix = left & 15u, apart = N / (done * radix);
        barrier();
        for (uint i = gl_LocalInvocationIndex; i < count; i += stride) {
            // Number `frequency` of the transform of every `apart`-th element of a row
            uint row = i / N * N, place = i - row;
            uint frequency = place / apart, offset = place - frequency * apart;
            uint from = row + frequency % done * apart * radix + offset;
            uint step = frequency * apart, angle = 0;
            vec2 sum = data[now][from];
            for (uint q = 1; q < radix; ++q) {
                angle += step;
                angle -= angle >= N ? N : 0;
                sum += turned(data[now][from + q * apart], table.at[angle]);
            }
            data[1 - now][i] = sum;
        }
        now = 1 - now;
        done *= radix;
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < count; i += stride)
        out_.at[first * N + i] = data[now][i] * push.scale;
}
