// Elements of a strided region stored from a strided source
// grid    one invocation per element, linear
// in      source; count: elements; size, stride, step: the region over out_ and the
//         strides of the same dimensions in source, from the longest stride down; magic
//         and shifts, of six bits each, divide by the sizes from the second on
// out     out_, whose other elements stay
// consts  DIMS: dimensions that are used; BYTES: of an element, 1, 2, 4, 8 or 16
// source  scatter form of copy/slice_update, which a software device takes long for
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 1
#extension GL_EXT_shader_8bit_storage : require
#define STORED uint8_t
#elif BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define STORED uint16_t
#elif BYTES == 4
#define STORED uint
#elif BYTES == 8
#define STORED uvec2
#else
#define STORED uvec4
#endif

layout(constant_id = 1) const int DIMS = 6;

layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer Elements { STORED at[]; };
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict writeonly
    buffer ElementsOut { STORED at[]; };

layout(push_constant, std430) uniform Push {
    Elements source;
    ElementsOut out_;
    uint count;
    uint size[6];
    uint stride[6];
    uint step[6];
    uint magic[5];
    uint shifts;
} args;

void main() {
    Elements source = args.source;
    ElementsOut out_ = args.out_;
    uint rest = linear_invocation();
    uint size[6] = args.size, stride[6] = args.stride, step[6] = args.step;
    uint magic[5] = args.magic, shifts = args.shifts;
    if (rest >= args.count) return;
    uint from = 0, to = 0;
    for (int dim = DIMS - 1; dim > 0; --dim) {
        uint next = divide(rest, magic[dim - 1], shifts >> 6 * (dim - 1) & 63u);
        uint coordinate = rest - next * size[dim];
        rest = next;
        from += coordinate * step[dim];
        to += coordinate * stride[dim];
    }
    out_.at[to + rest * stride[0]] = source.at[from + rest * step[0]];
}
