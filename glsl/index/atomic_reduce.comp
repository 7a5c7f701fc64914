// Rows combined by atomics with those of a tensor that they name: extremes, products, sums
// grid    one invocation per element of base, or of source, linear
// in      base; source (outer, entries, inner); indices (entries), or one for each element
//         if EACH; count: elements; identity: the bits of what changes nothing; first,
//         span: the places of out_ that passes 1 and 2 are for; division: see
//         `line_and_outer`
// out     out_, signed_, and floats with FLOAT_SUMS: the same memory (outer, rows, inner);
//         error: an index out of range
// consts  PASS: 0 begins with base, where each NaN has the bits that are beyond all
//         others, 1 writes the identity where rows are named, 2 combines; OPERATION;
//         EACH; INDEX_WORDS, INDEX_SIGNED, FROM_END; macro SOURCE_FLOAT16 or
//         SOURCE_BFLOAT16: source of such, where out_ is of float32
// source  extremes of floats by their bits: those without a sign are in the order of
//         signed integers, those with it in the reverse order of unsigned ones; the last
//         bits of sums and products of floats depend on the order of atomics
// lint    qualifier: out_ and signed_ are the same memory
// lint    atomic-in-loop: a number is exchanged until no other came between
#version 460
#extension GL_EXT_buffer_reference : require
#ifdef FLOAT_SUMS
#extension GL_EXT_shader_atomic_float : require
#endif
#ifdef WIDE_ATOMICS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require
#endif
#if defined(SOURCE_FLOAT16) || defined(SOURCE_BFLOAT16)
#define SOURCE_16
#extension GL_EXT_shader_16bit_storage : require
#include "lib/bfloat16.glsl"
#include "lib/float16.glsl"
#endif
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(constant_id = 3) const uint PASS = 2;
layout(constant_id = 4) const uint OPERATION = 0;
layout(constant_id = 7) const uint EACH = 1;

const uint MAX = 0;
const uint MIN = 1;
const uint PROD = 2;
const uint SUM = 3;

#define KIND_UNSIGNED 0
#define KIND_SIGNED 1
#define KIND_FLOAT 2
#ifndef KIND
#define KIND KIND_FLOAT
#endif

#ifdef WIDE_ATOMICS
#define BITS uint64_t
#define SIGNED int64_t
#define FLOATING double
#define AS_NUMBER(bits) uint64BitsToDouble(bits)
#define AS_BITS(number) doubleBitsToUint64(number)
const BITS INFINITY_BITS = 0x7ff0000000000000ul, NAN_BITS = 0x7ff8000000000000ul;
const BITS SIGN = 0x8000000000000000ul;
#else
#define BITS uint
#define SIGNED int
#define FLOATING float
#define AS_NUMBER(bits) uintBitsToFloat(bits)
#define AS_BITS(number) floatBitsToUint(number)
const BITS INFINITY_BITS = 0x7f800000u, NAN_BITS = 0x7fc00000u, SIGN = 0x80000000u;
#endif

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Base { BITS at[]; };
#ifdef SOURCE_16
layout(buffer_reference, std430, buffer_reference_align = 2) restrict readonly buffer
    Source { uint16_t at[]; };
#else
#define Source Base
#endif
layout(buffer_reference, std430, buffer_reference_align = 8) buffer
    Bits { BITS at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer
    SignedBits { SIGNED at[]; };

#ifdef FLOAT_SUMS
layout(buffer_reference, std430, buffer_reference_align = 8) buffer
    Floats { float at[]; };
#endif

layout(push_constant, std430) uniform Push {
    Base base;
    Source source;
    Indices indices;
    Bits out_;
    SignedBits signed_;
#ifdef FLOAT_SUMS
    Floats floats;
#endif
    IndexSlot error;
    uint count;
    uint rows;
    uint entries;
    uint inner;
    uint division[4];
    uint identity[2];
    uint first;
    uint span;
} args;

BITS source_bits(Source source, uint element) {
#ifdef SOURCE_FLOAT16
    return AS_BITS(from_float16(uint(source.at[element])));
#elif defined(SOURCE_BFLOAT16)
    return AS_BITS(from_bfloat16(uint(source.at[element])));
#else
    return source.at[element];
#endif
}

BITS settled(BITS bits) {
#if KIND == KIND_FLOAT
    if (OPERATION <= MIN && (bits & (SIGN - 1)) > INFINITY_BITS)
        return OPERATION == MIN ? NAN_BITS | SIGN : NAN_BITS;
#endif
    return bits;
}

BITS joined(BITS a, BITS b) {
#if KIND == KIND_FLOAT
    FLOATING x = AS_NUMBER(a), y = AS_NUMBER(b);
    return AS_BITS(OPERATION == SUM ? x + y : x * y);
#else
    return a * b;
#endif
}

void combine(Bits out_, SignedBits signed_, uint place, BITS value) {
#if KIND != KIND_FLOAT
    if (OPERATION == SUM) {
        atomicAdd(out_.at[place], value);
        return;
    }
#endif
    if (OPERATION >= PROD) {
        BITS found = out_.at[place], expected;
        do {
            expected = found;
            found = atomicCompSwap(out_.at[place], expected, joined(expected, value));
        } while (found != expected);
        return;
    }
    bool greatest = OPERATION == MAX;
#if KIND == KIND_FLOAT
    // With a sign, less is more.
    bool has_sign = (value & SIGN) != 0;
    if (has_sign && greatest) atomicMin(out_.at[place], value);
    if (has_sign && !greatest) atomicMax(out_.at[place], value);
    if (has_sign) return;
#endif
#if KIND == KIND_UNSIGNED
    if (greatest) atomicMax(out_.at[place], value);
    else atomicMin(out_.at[place], value);
#else
    if (greatest) atomicMax(signed_.at[place], SIGNED(value));
    else atomicMin(signed_.at[place], SIGNED(value));
#endif
}

void main() {
    uint element = linear_invocation();
    Base base = args.base;
    Source source = args.source;
    Indices indices = args.indices;
    Bits out_ = args.out_;
    SignedBits signed_ = args.signed_;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    if (element >= args.count) return;
    if (PASS == 0) {
        out_.at[element] = settled(base.at[element]);
        return;
    }
    uvec2 at = line_and_outer(element, args.division);
    uint line = at.x, outer = at.y;
    uint entry = EACH != 0 ? element : line - outer * entries, bad = 0;
    int row = read_row(indices, entry, rows, bad);
    if (bad != 0) args.error.at[0] = bad;
    if (row < 0) return;
    uint place = (outer * rows + uint(row)) * inner + (element - line * inner);
    if (place - args.first >= args.span) return;
#ifdef WIDE_ATOMICS
    BITS identity = BITS(args.identity[1]) << 32 | BITS(args.identity[0]);
#else
    BITS identity = args.identity[0];
#endif
    if (PASS == 1) {
        out_.at[place] = identity;
        return;
    }
#ifdef FLOAT_SUMS
    atomicAdd(args.floats.at[place], AS_NUMBER(source_bits(source, element)));
#else
    combine(out_, signed_, place, settled(source_bits(source, element)));
#endif
}
