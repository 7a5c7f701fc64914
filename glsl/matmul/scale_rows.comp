// Scaling of GEMM operands to float16, of lines along K: vectors and tiles, padded with 0
// grid    linear in workgroups of LINES lines; z: batch
// in      x: lines of float32 at any strides. With WIDE_LOADS, where lines lie as whole
//         vectors of four, x is read 16 bytes at a time
// out     vectors (batch, padded_lines, padded_vectors) of float16; exponents (batch,
//         padded_lines), of the scale of each line: see lib/float16_scale.glsl
// consts  LINES
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/float16.glsl"
#include "lib/float16_scale.glsl"
#include "matmul/scaled_vector.glsl"

layout(constant_id = 3) const uint LINES = 8;
const uint SHARE = gl_WorkGroupSize.x / LINES;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Vectors { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Exponents { int at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Vectors vectors;
    Exponents exponents;
    uint lines;  // of the operand, and elements of each
    uint elements;
    uint line_stride;
    uint element_stride;
    uint batch_stride;
    uint padded_lines;
    uint padded_vectors;
} push;

shared uint largest[gl_WorkGroupSize.x];

void main() {
    uint own = gl_LocalInvocationIndex, part = own % SHARE;
    uint line = linear_workgroup() * LINES + own / SHARE;
    bool exists = line < push.lines;
    uint from = gl_WorkGroupID.z * push.batch_stride + line * push.line_stride;
    uint filled = exists ? (push.elements + 7) / 8 : 0;
    uint most = 0;
    for (uint vector = part; vector < filled; vector += SHARE)
        most = max(most,
            largest_of(loaded(push.x, from, vector, push.elements, push.element_stride)));
    largest[own] = most;
    for (uint half_size = SHARE / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (part < half_size) {
            most = max(most, largest[own + half_size]);
            largest[own] = most;
        }
    }
    barrier();
    if (line >= push.padded_lines) return;
    int exponent = scale_exponent(largest[own - part]);
    float factor = power_of_two(-exponent);
    uint to = gl_WorkGroupID.z * push.padded_lines + line;
    if (part == 0) push.exponents.at[to] = exponent;
    for (uint vector = part; vector < push.padded_vectors; vector += SHARE) {
        uvec4 packed = uvec4(0);
        if (vector < filled)
            packed = scaled(
                loaded(push.x, from, vector, push.elements, push.element_stride), factor);
        push.vectors.at[to * push.padded_vectors + vector] = packed;
    }
}
