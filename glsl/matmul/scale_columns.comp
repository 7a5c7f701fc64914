// Scaling of GEMM operands to float16, of lines across K: vectors and tiles, padded with 0
// grid    linear in vectors of a line, then in runs of EACH lines; z: batch
// in      x: lines of contiguous float32; with WIDE_LOADS, where they are whole vectors of
//         four, x is read 16 bytes at a time. largest (batch, SLICES, columns), of each
//         column in a slice: see matmul/largest_columns.comp
// out     vectors (batch, padded_lines, padded_vectors) of float16; exponents (batch,
//         columns), of the scale of each column: see lib/float16_scale.glsl. Columns are
//         those of vectors, with padding
// consts  SLICES, EACH
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

layout(constant_id = 3) const uint SLICES = 1;
layout(constant_id = 4) const uint EACH = 16;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Vectors { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Exponents { ivec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Largest { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Largest largest;
    Vectors vectors;
    Exponents exponents;
    uint lines;  // of the operand, and elements of each
    uint elements;
    uint line_stride;
    uint batch_stride;
    uint padded_lines;
    uint padded_vectors;
    uint inner_magic;  // divides by padded_vectors
    uint inner_shift;
} push;

void main() {
    uint number = linear_invocation();
    uint run = divide(number, push.inner_magic, push.inner_shift);
    uint vector = number - run * push.padded_vectors;
    if (run * EACH >= push.padded_lines) return;
    uvec4 low = uvec4(0), high = uvec4(0);
    for (uint slice = 0; slice < SLICES; ++slice) {
        uint at = (gl_WorkGroupID.z * SLICES + slice) * push.padded_vectors + vector;
        low = max(low, push.largest.at[2 * at]);
        high = max(high, push.largest.at[2 * at + 1]);
    }
    ivec4 exponents[2];
    vec4 factors[2];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        exponents[0][i] = scale_exponent(low[i]);
        exponents[1][i] = scale_exponent(high[i]);
        factors[0][i] = power_of_two(-exponents[0][i]);
        factors[1][i] = power_of_two(-exponents[1][i]);
    }
    if (run == 0) {
        uint to = gl_WorkGroupID.z * push.padded_vectors + vector;
        push.exponents.at[2 * to] = exponents[0];
        push.exponents.at[2 * to + 1] = exponents[1];
    }
    uint end = min((run + 1) * EACH, push.padded_lines);
    uint from = gl_WorkGroupID.z * push.batch_stride;
    uint to = gl_WorkGroupID.z * push.padded_lines;
    for (uint line = run * EACH; line < end; ++line) {
        uvec4 packed = uvec4(0);
        if (line < push.lines && 8 * vector < push.elements) {
            Eight values =
                loaded(push.x, from + line * push.line_stride, vector, push.elements, 1);
            packed = rounded(values.low * factors[0], values.high * factors[1]);
        }
        push.vectors.at[(to + line) * push.padded_vectors + vector] = packed;
    }
}
