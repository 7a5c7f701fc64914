// Segment sums of rows by atomics: out[o, row(e), i] += source[o, e, i]
// grid    one invocation per element of source, linear
// in      source (outer, entries, inner) T; rows (entries) int32, below 0 for none
// out     out_ (outer, rows_out, inner) T, zeros before
// consts  none; FLOAT_SWAPS: floats are added without atomic_float; WIDE_ATOMICS: 64 bits
// source  sums of floats depend on the order of atomics in their last bits
#version 460
#extension GL_EXT_buffer_reference : require
#ifndef FLOAT_SWAPS
#extension GL_EXT_shader_atomic_float : require
#endif
#ifdef WIDE_ATOMICS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require
#endif
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

#ifndef T
#define T int
#endif

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Source { T at[]; };
#ifdef FLOAT_SWAPS
layout(buffer_reference, std430, buffer_reference_align = 8) restrict buffer
    Sums { uint at[]; };
void add(Sums sums, uint place, float value) {
    uint found = sums.at[place], expected;
    do {
        expected = found;
        uint sum = floatBitsToUint(uintBitsToFloat(expected) + value);
        found = atomicCompSwap(sums.at[place], expected, sum);
    } while (found != expected);
}
#else
layout(buffer_reference, std430, buffer_reference_align = 8) restrict buffer
    Sums { T at[]; };
void add(Sums sums, uint place, T value) { atomicAdd(sums.at[place], value); }
#endif
layout(push_constant, std430) uniform Push {
    Source source;
    IntIn rows;
    Sums out_;
    uint count;
    uint entries;
    uint inner;
    uint rows_out;
} args;

void main() {
    uint element = linear_invocation();
    Source source = args.source;
    IntIn rows = args.rows;
    Sums out_ = args.out_;
    uint entries = args.entries, inner = args.inner, rows_out = args.rows_out;
    if (element >= args.count) return;
    uint line = element / inner;
    uint o = line / entries;
    int row = rows.at[line - o * entries];
    if (row < 0 || uint(row) >= rows_out) return;
    uint place = (o * rows_out + uint(row)) * inner + (element - line * inner);
    add(out_, place, source.at[element]);
}
