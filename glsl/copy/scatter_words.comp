// Elements of a strided region stored from a strided source
// grid    one invocation per element, linear
// in      source; count: elements; size, stride, step: the region over out_ and the
//         strides of the same dimensions in source, from the longest stride down
// out     out_, whose other elements stay
// consts  PARTS: words per element, 1 or 2; DIMS: dimensions that are used
// source  scatter form of copy/slice_update, which a software device takes long for
// lint    scalar-load: the two words of an element
// lint    integer-division: sizes are arguments; one for each dimension of an element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 1) const uint PARTS = 1;
layout(constant_id = 2) const int DIMS = 6;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };

layout(push_constant, std430) uniform Push {
    Words source;
    WordsOut out_;
    uint count;
    uint size[6];
    uint stride[6];
    uint step[6];
} args;

void main() {
    Words source = args.source;
    WordsOut out_ = args.out_;
    uint rest = linear_invocation();
    uint size[6] = args.size, stride[6] = args.stride, step[6] = args.step;
    if (rest >= args.count) return;
    uint from = 0, to = 0;
    for (int dim = DIMS - 1; dim >= 0; --dim) {
        uint next = rest / size[dim];
        uint coordinate = rest - next * size[dim];
        rest = next;
        from += coordinate * step[dim];
        to += coordinate * stride[dim];
    }
    for (uint part = 0; part < PARTS; ++part)
        out_.at[PARTS * to + part] = source.at[PARTS * from + part];
}
