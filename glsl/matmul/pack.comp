// GEMM operand packing: vectors of 16 bytes and whole tiles, padded with zeros
// grid    linear in vectors of one batch; with QUADS 32 invocations for each block of 32
//         lines and 4 vectors; z: batch
// in      x: lines of elements at any strides
// out     vectors (batch, padded_lines, padded_vectors). With WIDE_LOADS,
//         of contiguous elements, x is read 16 bytes at a time; with QUADS, of int8 with
//         contiguous columns, 4 lines at a time
// consts  LINES_FIRST: neighbouring invocations take neighbouring lines, where those are
//         adjacent in x
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#ifdef WIDE_LOADS
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/unaligned_load.glsl"
#endif

layout(constant_id = 3) const uint LINES_FIRST = 0;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Vectors vectors;
    uint lines;  // of the operand, and elements of each
    uint elements;
    uint line_stride;
    uint element_stride;
    uint batch_stride;
    uint padded_lines;
    uint padded_vectors;
    uint inner_magic;  // divides by padded_vectors, with LINES_FIRST by padded_lines,
                       // with QUADS by blocks of lines
    uint inner_shift;
} push;

const uint BITS = 8 * BYTES;
const uint WIDTH = 128 / BITS;

ACC element(uint line, uint at) {
    bool inside = line < push.lines && at < push.elements;
    uint from = gl_WorkGroupID.z * push.batch_stride + line * push.line_stride
        + at * push.element_stride;
    return inside ? load(push.x, from) : ACC(0);
}

uint bits_of(ACC value) {
#if DTYPE == DTYPE_BFLOAT16
    return to_bfloat16(value);
#elif DTYPE == DTYPE_FLOAT16
    return packHalf2x16(vec2(value, 0.0));
#elif DTYPE == DTYPE_INT8
    return uint(value) & 0xffu;
#else
    return floatBitsToUint(value);
#endif
}

#ifdef WIDE_LOADS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer InVectors { uvec4 at[]; };

// Unaligned load of a vector, with zeros past the line's end: from two aligned vectors,
// of which the second holds an element or is the first again.
uvec4 loaded(uint line, uint vector) {
    uint first = vector * WIDTH;
    if (line >= push.lines || first >= push.elements) return uvec4(0);
    uint count = min(push.elements - first, WIDTH);
    uint from = gl_WorkGroupID.z * push.batch_stride + line * push.line_stride + first;
    uint last = from + count - 1;
    uvec2 address = uvec2(push.x);
    uint skew = address.x % 16;
    InVectors x = InVectors(uvec2(address.x - skew, address.y));
    uint start = from % WIDTH * BYTES + skew;
    uint end = last % WIDTH * BYTES + skew;
    uint at = from / WIDTH + start / 16;
    uvec4 high = x.at[min(at + 1, last / WIDTH + end / 16)];
    return first_bits(shifted(x.at[at], high, start % 16), int(count * BITS));
}
#endif

#ifdef QUADS
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Words { uint at[]; };

// Transpose of four words along K by four lines.
uvec4 turned(uvec4 words) {
    uvec4 even = words & 0x00ff00ffu;
    uvec4 odd = words >> 8 & 0x00ff00ffu;
    uvec2 low = uvec2(even.x | even.y << 8, odd.x | odd.y << 8);
    uvec2 high = uvec2(even.z | even.w << 8, odd.z | odd.w << 8);
    return uvec4(low & 0xffffu | high << 16, low >> 16 | high & 0xffff0000u);
}

void main() {
    uint number = linear_invocation();
    uint blocks = (push.padded_lines + 31) / 32;
    uint block = divide(number / 32, push.inner_magic, push.inner_shift);
    uint line = (number / 32 - block * blocks) * 32 + number % 8 * 4;
    uint vector = block * 4 + number / 8 % 4;
    if (line >= push.padded_lines || vector >= push.padded_vectors) return;
    uint from = (gl_WorkGroupID.z * push.batch_stride + line) / 4;
    uvec4 found[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uvec4 words;
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            uint at = vector * WIDTH + 4 * i + k;
            bool inside = line < push.lines && at < push.elements;
            uint place = from + at * (push.element_stride / 4);
            words[k] = inside ? Words(push.x).at[place] : 0;
        }
        found[i] = turned(words);
    }
    uint before = gl_WorkGroupID.z * push.padded_lines;
    // turned() has lines 0, 1, 2, 3 in order x, y, z, w.
    [[unroll]] for (uint i = 0; i < 4; ++i)
        if (line + i < push.padded_lines)
            push.vectors.at[(before + line + i) * push.padded_vectors + vector] =
                uvec4(found[0][i], found[1][i], found[2][i], found[3][i]);
}
#else
void main() {
    uint number = linear_invocation();
    uint inner = LINES_FIRST != 0 ? push.padded_lines : push.padded_vectors;
    uint whole = divide(number, push.inner_magic, push.inner_shift);
    uint rest = number - whole * inner;
    uint line = LINES_FIRST != 0 ? rest : whole;
    uint vector = LINES_FIRST != 0 ? whole : rest;
    if (line >= push.padded_lines || vector >= push.padded_vectors) return;
    uint before = gl_WorkGroupID.z * push.padded_lines * push.padded_vectors;
#ifdef WIDE_LOADS
    push.vectors.at[before + line * push.padded_vectors + vector] = loaded(line, vector);
#else
    uvec4 packed = uvec4(0);
    [[unroll]] for (uint i = 0; i < WIDTH; ++i) {
        uint bits = bits_of(element(line, vector * WIDTH + i));
        packed[i * BITS / 32] |= bits << i * BITS % 32;
    }
    push.vectors.at[before + line * push.padded_vectors + vector] = packed;
#endif
}
#endif
