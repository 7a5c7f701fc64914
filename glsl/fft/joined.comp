// Half the transforms of real rows, two of which were real and imaginary parts of one
//
// grid    linear, one invocation for number k of two rows' results
// in      x (halves, n) complex64, the transforms of rows r and r + halves; n; count:
//         halves times n / 2 + 1, by which magic and shift divide; rows: of the result
// out     out_ (rows, n / 2 + 1) complex64
// consts  CONJUGATED: results are conjugated
// source  Press et al., "Numerical Recipes", 1992, section 12.3: two real functions at once
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint CONJUGATED = 0;

#include "fft/halves.glsl"

layout(push_constant, std430) uniform Push {
    Numbers x;
    Results out_;
    uint n;
    uint count;
    uint halves;
    uint rows;
    uint magic;
    uint shift;
} push;

void main() {
    uint number = linear_invocation();
    if (number >= push.count) return;
    Numbers x = push.x;
    Results out_ = push.out_;
    uint n = push.n, row = divide(number, push.magic, push.shift);
    uint k = number - row * (n / 2u + 1u);
    // One row's numbers k and n - k are conjugates, the other's, times i, minus that.
    vec2 ahead = 0.5 * x.at[row * n + k];
    vec2 back = 0.5 * conjugate(x.at[row * n + (k > 0u ? n - k : 0u)]);
    vec2 one = ahead + back, other = vec2(ahead.y - back.y, back.x - ahead.x);
    out_.at[number] = CONJUGATED != 0 ? conjugate(one) : one;
    if (row + push.halves >= push.rows) return;
    number += push.halves * (n / 2u + 1u);
    out_.at[number] = CONJUGATED != 0 ? conjugate(other) : other;
}
