// Real numbers as pairs: half their transform from the transform of pairs, or, BACK, the
// numbers whose inverse transform is the pairs, from half a transform
//
// grid    linear, one invocation for each number of the result
// in      x (rows, n) complex64, or BACK (rows, n + 1); halves (n + 1), exp(-pi i k / n);
//         n; count: rows times numbers of a row of the result; inner: a factor of the
//         numbers between the first and the last of half a transform; magic and shift
//         divide by the numbers of a row of the result
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
    Numbers x = push.x;
#if BACK
    uint k = number - row * n;
    push.out_.at[number] =
        push.scale * pair_of_half(x, push.halves, row * (n + 1u), k, n, push.inner);
#else
    uint k = number - row * (n + 1u);
    vec2 ahead = x.at[row * n + (k < n ? k : 0u)];
    vec2 back = x.at[row * n + (k > 0u ? n - k : 0u)];
    push.out_.at[number] =
        push.scale * half_of_pairs(ahead, back, push.halves, k, n, push.inner);
#endif
}
