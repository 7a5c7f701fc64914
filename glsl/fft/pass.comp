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
// consts  FIRST, SECOND: 1, 2, 4, 8, or odd ones up to 13; INVERSE
// source  Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992,
//         section 1.7: the mixed-radix Stockham autosort framework
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#if PAIRED
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "lib/index.glsl"
#include "lib/math/trigonometric.glsl"

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

const uint RADIX = FIRST * SECOND;
const uint MOST = 13;
const float HALF_ROOT = 0.707106781;

vec2 product(vec2 a, vec2 b) {
    return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// value times exp(-i pi / 2), or the other way
vec2 turned(vec2 value) {
    return INVERSE != 0 ? vec2(-value.y, value.x) : vec2(value.y, -value.x);
}

// exp(-2 pi i part / whole) for part < whole < 2^30, or its conjugate
vec2 root(uint part, uint whole) {
    uint quarter = uint(float(4 * part) / float(whole) + 0.5);
    float rest = float(int(4 * part - quarter * whole)) / float(whole);
    float angle = rest * HALF_PI_HIGH;
    float sine = sine_near_zero(angle), cosine = cosine_near_zero(angle);
    vec2 value = (quarter & 1) == 0 ? vec2(cosine, sine) : vec2(-sine, cosine);
    value = (quarter & 2) == 0 ? value : -value;
    return INVERSE != 0 ? value : vec2(value.x, -value.y);
}

void transform_2(inout vec2 a, inout vec2 b) {
    vec2 sum = a + b;
    b = a - b;
    a = sum;
}

void transform_4(inout vec2 a, inout vec2 b, inout vec2 c, inout vec2 d) {
    transform_2(a, c);
    transform_2(b, d);
    d = turned(d);
    transform_2(a, b);
    transform_2(c, d);
    vec2 third = b;
    b = c;
    c = third;
}

void transform_8(inout vec2 value[MOST]) {
    transform_4(value[0], value[2], value[4], value[6]);
    transform_4(value[1], value[3], value[5], value[7]);
    vec2 even[4] = vec2[](value[0], value[2], value[4], value[6]);
    vec2 odd[4] = vec2[](value[1], value[3], value[5], value[7]);
    odd[1] = HALF_ROOT * (odd[1] + turned(odd[1]));
    odd[2] = turned(odd[2]);
    odd[3] = HALF_ROOT * (turned(odd[3]) - odd[3]);
    [[unroll]] for (uint q = 0; q < 4; ++q) {
        value[q] = even[q] + odd[q];
        value[q + 4] = even[q] - odd[q];
    }
}

// A transform of an odd number: numbers q and radix - q have conjugate factors.
void transform_odd(uint radix, inout vec2 value[MOST]) {
    vec2 sums[MOST], start = value[0];
    [[unroll]] for (uint q = 1; q <= radix / 2; ++q) {
        sums[q] = value[q] + value[radix - q];
        sums[radix - q] = value[q] - value[radix - q];
        value[0] += sums[q];
    }
    [[unroll]] for (uint p = 1; p <= radix / 2; ++p) {
        vec2 even = start, odd = vec2(0.0);
        [[unroll]] for (uint q = 1; q <= radix / 2; ++q) {
            vec2 factor = root(p * q % radix, radix);
            even += factor.x * sums[q];
            odd += factor.y * sums[radix - q];
        }
        odd = vec2(-odd.y, odd.x);
        value[p] = even + odd;
        value[radix - p] = even - odd;
    }
}

// `radix` is a constant once this is inlined.
void transform(uint radix, inout vec2 value[MOST]) {
    if (radix == 2)
        transform_2(value[0], value[1]);
    else if (radix == 4)
        transform_4(value[0], value[1], value[2], value[3]);
    else if (radix == 8)
        transform_8(value);
    else if (radix > 1)
        transform_odd(radix, value);
}

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
            passed[a * FIRST + b] = product(value[b], root(a * b, RADIX));
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
