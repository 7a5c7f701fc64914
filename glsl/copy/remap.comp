// Gather by an index map per dimension: out[c] = x[map(c)]
// grid    linear, ITEMS 32-bit words of out_ for each invocation; with VECTORS 16 bytes
// in      x, contiguous; per dimension, innermost first: in_size, out_size, and start,
//         the place in x of coordinate 0; magic and shift, which divide by the first
//         of out_size; fill: two words, the element outside of x
// out     out_, contiguous, count elements
// consts  MODE: boundary mode, the element outside of x; DIMS: dimensions, the last of
//         which counts without an end; SIZE: bytes per element; ITEMS
// source  numpy.pad, numpy.roll, numpy.flip
// lint    integer-division: of a fifth dimension, and a sixth
//
// With VECTORS elements are 16 bytes, of which sizes and counts are numbers too; the
// innermost dimension is then not mapped.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint MODE = 0;
layout(constant_id = 5) const int DIMS = 6;
layout(constant_id = 6) const uint ITEMS = 1;

const uint FILL = 0;
const uint CIRCULAR = 1;
const uint REFLECT = 2;
const uint REPLICATE = 3;
const uint FLIP = 4;
const int MOST_DIMS = 6;
const int MOST_DIVISORS = 3;

#ifdef VECTORS
#define ITEM uvec4
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Source { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Result { uvec4 at[]; };
#else
#define ITEM uint
#define Source Words
#define Result WordsOut
#endif

layout(push_constant, std430) uniform Push {
    Source x;
    Result out_;
    uint count;
    uint fill[2];
    int in_size[MOST_DIMS];
    uint out_size[MOST_DIMS];
    int start[MOST_DIMS];
    uint magic[MOST_DIVISORS];
    uint shift[MOST_DIVISORS];
} args;

uint quotient(uint number, int dim) {
    if (dim < MOST_DIVISORS) return divide(number, args.magic[dim], args.shift[dim]);
    return number / args.out_size[dim];
}

// The source of an element of the result, and whether there is one.
uint source_of(uint number, out bool inside) {
    uint rest = number, element = 0, step = 1;
    inside = true;
    [[unroll]] for (int dim = 0; dim < DIMS; ++dim) {
        int size = args.in_size[dim], start = args.start[dim];
        uint next = dim == DIMS - 1 ? 0 : quotient(rest, dim);
        int at = int(rest - next * args.out_size[dim]);
        rest = next;
        // So that no sum is compared that may have 32 bits: of a size near 2^31.
        bool before = start < 0 && start + at < 0;
        bool past = start > 0 ? at >= size - start : start + at >= size;
        // A flipped dimension is one with a start.
        at = MODE == FLIP && start > 0 ? start - at : start + at;
        if (MODE == CIRCULAR) at = before ? at + size : past ? at - size : at;
        if (MODE == REFLECT) at = before ? -at : past ? 2 * size - 2 - at : at;
        if (MODE == REPLICATE) at = before ? 0 : past ? size - 1 : at;
        inside = inside && (MODE != FILL || !(before || past));
        element += uint(at) * step;
        step *= uint(size);
    }
    return element;
}

ITEM item(uint number) {
    bool inside;
#ifdef VECTORS
    uint element = source_of(number, inside);
    uvec4 result = uvec4(args.fill[0], args.fill[1], args.fill[0], args.fill[1]);
    if (inside) result = args.x.at[element];
#else
    uint result = 0;
    [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
        uint element = source_of(min(element_of(number, lane), args.count - 1), inside);
        uint bits = args.fill[number % PARTS];
        if (inside) bits = read_bits(args.x, element, number);
        result = insert(result, lane, bits);
    }
#endif
    return result;
}

void main() {
#ifdef VECTORS
    uint items = args.count;
#else
    uint items = words_of(args.count);
#endif
    ITEM results[ITEMS];
    uint first = linear_workgroup() * gl_WorkGroupSize.x * ITEMS + gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        results[i] = item(min(first + i * gl_WorkGroupSize.x, items - 1));
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint number = first + i * gl_WorkGroupSize.x;
        if (number < items) args.out_.at[number] = results[i];
    }
}
