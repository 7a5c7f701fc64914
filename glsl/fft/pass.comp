// A pass of discrete Fourier transforms of rows: of numbers that lie apart
//
// For software devices, which gather shared memory lane by lane as they do the other,
// and switch stacks at a barrier. As a gather takes longer than the arithmetic, a pass
// transforms many numbers at a time, and computes its factors.
//
// grid    linear, one invocation for each RADIX = FIRST * SECOND numbers
// in      x (rows, n) complex64; n; done: the product of the radices of the passes
//         before; apart = n / (done * RADIX); count: invocations that have work; magic
//         and shift divide by n / RADIX and by apart
// out     out_ (rows, n) complex64, times scale
// consts  FIRST, SECOND: 1, 2, 4, 8, or odd ones up to 13, or 31; INVERSE
// macros  LARGEST_RADIX: FIRST, if that is above 13
// source  Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992,
//         section 1.7: the mixed-radix Stockham autosort framework
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#if PAIRED
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "lib/index.glsl"

layout(constant_id = 3) const uint FIRST = 2;
layout(constant_id = 4) const uint SECOND = 1;
layout(constant_id = 5) const uint INVERSE = 0;

// A number is one word where there are such words: a gather takes its time per word.
#if PAIRED
#define NUMBER uint64_t
#define UNPACK(number) uintBitsToFloat(unpackUint2x32(number))
#define PACK(value) packUint2x32(floatBitsToUint(value))
#else
#define NUMBER vec2
#define UNPACK(number) number
#define PACK(value) value
#endif

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly
    buffer Numbers { NUMBER at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly
    buffer Results { NUMBER at[]; };

layout(push_constant, std430) uniform Push {
    Numbers x;
    Results out_;
    uint n;
    uint done;
    uint apart;
    uint count;
    float scale;
    uint magic[2];
    uint shift[2];
} push;

#include "fft/butterfly.glsl"

const uint RADIX = FIRST * SECOND;
void main() {
    uint number = linear_invocation();
    if (number >= push.count) return;
    Numbers x = push.x;
    Results out_ = push.out_;
    uint n = push.n, done = push.done, apart = push.apart;
    uint row = divide(number, push.magic[0], push.shift[0]);
    number -= row * (n / RADIX);
    uint k = divide(number, push.magic[1], push.shift[1]);
    uint offset = number - k * apart;
    uint from = row * n + k * apart * RADIX + offset;

    vec2 passed[RADIX];
    [[unroll]] for (uint a = 0; a < SECOND; ++a) {
        vec2 value[MOST];
        [[unroll]] for (uint b = 0; b < FIRST; ++b) {
            uint q = a + SECOND * b;
            value[b] = UNPACK(x.at[from + q * apart]);
            if (q > 0) value[b] = product(value[b], root(q * k * apart, n));
        }
        transform(FIRST, value);
        [[unroll]] for (uint b = 0; b < FIRST; ++b)
            passed[a * FIRST + b] = turned_by_root(value[b], a * b, RADIX);
    }
    uint to = row * n + number;
    [[unroll]] for (uint b = 0; b < FIRST; ++b) {
        vec2 value[MOST];
        [[unroll]] for (uint a = 0; a < SECOND; ++a) value[a] = passed[a * FIRST + b];
        transform(SECOND, value);
        [[unroll]] for (uint a = 0; a < SECOND; ++a) {
            uint p = b + FIRST * a;
            out_.at[to + p * done * apart] = PACK(push.scale * value[a]);
        }
    }
}
