// Fractional max pooling: maximum of each random window of a volume, and its position
// grid    one invocation per element of out_, linear
// in      x (volumes, size[0], size[1], size[2]); samples (volumes, draws), from 0 to
//         below 1: that of a dimension is its draw; step: distance of its windows, if
//         samples are float32; count: elements of out_
// out     out_ (volumes, parts[0], parts[1], parts[2]); indices, same, int32
// consts  TAPS_D, TAPS_H, TAPS_W: size of a window
// macros  WIDE_SAMPLES: samples are float64
// source  Graham, "Fractional Max-Pooling", arXiv:1412.6071; PyTorch's rules: the first
//         of equals, but the last NaN
// lint    scalar-load: a window begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint TAPS_D = 1;
layout(constant_id = 4) const uint TAPS_H = 1;
layout(constant_id = 5) const uint TAPS_W = 1;

#if WIDE_SAMPLES
#define SAMPLE double
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Samples { double at[]; };
#else
#define SAMPLE float
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Samples { float at[]; };
#endif

layout(push_constant, std430) uniform Push {
    In x;
    Samples samples;
    Out out_;
    IntOut indices;
    uint count;
    uint draws;
    uint size[3];
    uint parts[3];
    uint draw[3];
    float step[3];
} push;

// Where window `part` of a dimension begins; samples out of range stay in the volume.
uint first_of(Samples samples, uint volume, uint dim, uint part, uint taps) {
    uint last = push.size[dim] - taps;
    if (part + 1 >= push.parts[dim]) return last;
    SAMPLE draw = samples.at[volume * push.draws + push.draw[dim]];
#if WIDE_SAMPLES
    SAMPLE apart = SAMPLE(last) / SAMPLE(push.parts[dim] - 1);
#else
    SAMPLE apart = push.step[dim];
#endif
    int first = int((SAMPLE(part) + draw) * apart) - int(draw * apart);
    return min(uint(max(first, 0)), last);
}

void main() {
    In x = push.x;
    Samples samples = push.samples;
    Out out_ = push.out_;
    IntOut indices = push.indices;
    uint element = linear_invocation();
    if (element >= push.count) return;
    uint line = element / push.parts[2], plane = line / push.parts[1];
    uint volume = plane / push.parts[0];
    uvec3 part = uvec3(
        plane - volume * push.parts[0], line - plane * push.parts[1],
        element - line * push.parts[2]);
    uvec3 first = uvec3(
        first_of(samples, volume, 0, part.x, TAPS_D),
        first_of(samples, volume, 1, part.y, TAPS_H),
        first_of(samples, volume, 2, part.z, TAPS_W));
    uint height = push.size[1], width = push.size[2];
    uint base = volume * push.size[0] * height * width;
    uint position = (first.x * height + first.y) * width + first.z;
    ACC greatest = load(x, base + position);
    for (uint depth = first.x; depth < first.x + TAPS_D; ++depth)
        for (uint row = first.y; row < first.y + TAPS_H; ++row)
            for (uint column = first.z; column < first.z + TAPS_W; ++column) {
                uint candidate = (depth * height + row) * width + column;
                ACC value = load(x, base + candidate);
                bool better = value > greatest || value != value;
                greatest = better ? value : greatest;
                position = better ? candidate : position;
            }
    store(out_, element, greatest);
    indices.at[element] = int(position);
}
