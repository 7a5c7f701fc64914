// Filter packing: the left operand of an implicit GEMM, in vectors of channels, padded
// with zeros
// grid    linear in vectors of out
// in      weight (out_channels, in_count, DEPTH, KERNEL_H, KERNEL_W), in groups of
//         out_count
// out     vectors (rows, pitch): of each tap, the channels of each of DEEP planes. With
//         PLANES_FIRST of each plane all taps. With SCALED they are float32 scaled to
//         float16, by the largest magnitudes of each channel that rows are of; exponents
//         (rows), of those scales: see lib/float16_scale.glsl
//         Channels are those of a bundle of groups, zeros where a row is of another group
// consts  KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W; FOR_INPUT: for dgrad in place of the
//         convolution: rows are (stride phases, in channels), or, if together, those
//         across last; taps are every stride-th, in reverse; planes are every
//         DEEP_STEP-th from the DEEP_FIRST, in reverse too
// source  definition
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/window.glsl"

layout(constant_id = 18) const uint FOR_INPUT = 0;
layout(constant_id = 19) const uint DEPTH = 1;
layout(constant_id = 20) const uint DEEP = 1;
layout(constant_id = 21) const uint DEEP_FIRST = 0;
layout(constant_id = 22) const uint DEEP_STEP = 1;
layout(constant_id = 23) const uint PLANES_FIRST = 0;
layout(constant_id = 24) const uint PHASES_TOGETHER = 1;  // 1, or STRIDE_W

// Of a stride phase, by component: the validation layers of 1.3.239 fold operations on
// constant vectors into modules that are not valid.
const uint TAPS_DOWN = (KERNEL_H - 1) / STRIDE_H + 1;
const uint TAPS_ACROSS = (KERNEL_W - 1) / STRIDE_W + 1;

#ifdef SCALED
#include "conv/scale_of_group.glsl"
const uint WIDTH = 8;
#else
const uint WIDTH = 16 / BYTES;
#endif

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In weight;
    Vectors vectors;
    uint rows;
    uint pitch;
    uint channel_vectors;
    uint out_channels;  // of all groups
    uint in_channels;
    uint out_count;  // of a group
    uint in_count;
    uint bundle;  // groups
#ifdef SCALED
    Largest largest;
    Exponents exponents;
#endif
} push;

uint bits(uint index) {
#if BYTES == 2
    return uint(push.weight.at[index]);
#else
    return floatBitsToUint(push.weight.at[index]);
#endif
}

void main() {
    uint number = linear_invocation();
    if (number >= push.rows * push.pitch) return;
    uint row = number / push.pitch;
    uint place = number - row * push.pitch;
    uint tap = place / push.channel_vectors;
    uint channel = (place - tap * push.channel_vectors) * WIDTH;
    const uint PLANE_TAPS = FOR_INPUT != 0 ? TAPS_DOWN * TAPS_ACROSS : TAPS;
    uint deep = PLANES_FIRST != 0 ? tap / PLANE_TAPS : tap % DEEP;
    tap = PLANES_FIRST != 0 ? tap % PLANE_TAPS : tap / DEEP;
    bool in_window = deep < DEEP;
    uint first = row, last = push.out_channels;
    uint own_count = push.out_count, other_count = push.in_count;
    uvec2 at = uvec2(tap / KERNEL_W, tap % KERNEL_W);
    if (FOR_INPUT != 0) {
        uint line = row / PHASES_TOGETHER, phase = line / push.in_channels;
        first = line - phase * push.in_channels;
        phase = phase * PHASES_TOGETHER + row % PHASES_TOGETHER;
        last = phase < STRIDE_H * STRIDE_W ? push.in_channels : 0;
        own_count = push.in_count;
        other_count = push.out_count;
        deep = DEEP_FIRST + DEEP_STEP * (DEEP - 1 - deep);
        at.x = phase / STRIDE_W + STRIDE_H * (TAPS_DOWN - 1 - tap / TAPS_ACROSS);
        at.y = phase % STRIDE_W + STRIDE_W * (TAPS_ACROSS - 1 - tap % TAPS_ACROSS);
    }
    bool inside = in_window && first < last && at.x < KERNEL_H && at.y < KERNEL_W;
    uint group = first / own_count;
    uint before = group % push.bundle * other_count;  // channels of the bundle
#ifdef SCALED
    int exponent = first < last ? exponent_of_group(push.largest, first) : 0;
    if (place == 0) push.exponents.at[row] = exponent;
#endif
    uint values[WIDTH];
    [[unroll]] for (uint i = 0; i < WIDTH; ++i) {
        uint other = channel + i - before;
        bool there = inside && other < other_count;
        uint filter_ = FOR_INPUT != 0
            ? (group * push.out_count + other) * push.in_count
                + (first - group * push.in_count)
            : first * push.in_count + other;
        uint value = bits(there ? (filter_ * DEPTH + deep) * TAPS + at.x * KERNEL_W + at.y : 0);
        values[i] = there ? value : 0;
    }
    uvec4 packed = uvec4(0);
#ifdef SCALED
    float factor = power_of_two(-exponent);
    [[unroll]] for (uint i = 0; i < 4; ++i)
        packed[i] = pack_float16(uintBitsToFloat(values[2 * i]) * factor,
            uintBitsToFloat(values[2 * i + 1]) * factor);
#else
    [[unroll]] for (uint i = 0; i < WIDTH; ++i)
        packed[i * 4 / WIDTH] |= values[i] << i * (128 / WIDTH) % 32;
#endif
    push.vectors.at[number] = packed;
}
