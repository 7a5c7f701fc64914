// Real numbers as pairs: half their transform from the transform of pairs, or, BACK, the
// numbers whose inverse transform is the pairs, from half a transform
//
// grid    linear, one invocation for the numbers k and n - k of the result, which are of
//         the same two numbers
// in      x (rows, n) complex64, or BACK (rows, n + 1); halves (n + 1), exp(-pi i k / n);
//         n; count: rows times n / 2 + 1, by which magic and shift divide; inner: a
//         factor of the numbers between the first and the last of half a transform
// out     out_ (rows, n + 1) complex64, or BACK (rows, n), times scale
// consts  CONJUGATED: halves of transforms are conjugated
// source  Sorensen et al., "Real-Valued Fast Fourier Transform Algorithms", 1987
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint CONJUGATED = 0;

#include "fft/halves.glsl"

layout(push_constant, std430) uniform Push {
    Numbers x;
    Numbers halves;
    Results out_;
    uint n;
    uint count;
    float scale;
    float inner;
    uint magic;
    uint shift;
} push;

void main() {
    uint number = linear_invocation();
    if (number >= push.count) return;
    uint n = push.n, row = divide(number, push.magic, push.shift);
    uint k = number - row * (n / 2u + 1u), other = n - k;
    Numbers x = push.x, halves = push.halves;
    Results out_ = push.out_;
    float scale = push.scale, inner = push.inner;
#if BACK
    uint from = row * (n + 1u), to = row * n;
    vec2 first = half_number(x, from, k, n, inner);
    vec2 second = half_number(x, from, other, n, inner);
    out_.at[to + k] = scale * pair_of_numbers(first, second, halves, k);
    // Number n is none.
    if (k > 0u) out_.at[to + other] = scale * pair_of_numbers(second, first, halves, other);
#else
    uint from = row * n, to = row * (n + 1u);
    vec2 first = x.at[from + k], second = x.at[from + (k > 0u ? other : 0u)];
    vec2 low, high;
    halves_of_pairs(first, second, halves.at[k], k, inner, low, high);
    out_.at[to + k] = scale * low;
    if (other > k) out_.at[to + other] = scale * high;
#endif
}
