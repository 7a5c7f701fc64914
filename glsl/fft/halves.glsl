// Half a transform of 2 n real numbers, and the n pairs that these are taken as
//
// CONJUGATED: a constant, whether halves of transforms are conjugated.

#include "fft/product.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly
    buffer Numbers { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly
    buffer Results { vec2 at[]; };

vec2 conjugate(vec2 value) {
    return vec2(value.x, -value.y);
}

// Number k of half a transform, of which the first and the last are real
vec2 half_number(Numbers x, uint begin, uint k, uint n, float inner) {
    vec2 value = x.at[begin + k];
    if (CONJUGATED != 0) value = conjugate(value);
    return k == 0u || k == n ? vec2(value.x, 0.0) : value * inner;
}

// Number k of what the inverse transform makes pairs of, from the numbers k and n - k of
// half a transform
vec2 pair_of_numbers(vec2 ahead, vec2 back, Numbers halves, uint k) {
    back = conjugate(back);
    vec2 factor = halves.at[k];
    return ahead + back + product(ahead - back, vec2(factor.y, factor.x));
}

vec2 pair_of_half(Numbers x, Numbers halves, uint begin, uint k, uint n, float inner) {
    vec2 ahead = half_number(x, begin, k, n, inner);
    vec2 back = half_number(x, begin, n - k, n, inner);
    return pair_of_numbers(ahead, back, halves, k);
}

// Numbers k and n - k of half a transform, from those of that of pairs, and halves.at[k];
// 2 k is at most n.
// The factor of n - k is minus the conjugate of that of k, so they share a product.
void halves_of_pairs(
    vec2 ahead, vec2 back, vec2 factor, uint k, float inner, out vec2 low, out vec2 high
) {
    back = conjugate(back);
    vec2 even = ahead + back, odd = product(ahead - back, vec2(factor.y, -factor.x));
    low = even + odd;
    high = even - odd;
    // Of the first and the last, both are real.
    if (k == 0u) high.y = -high.y;
    if (CONJUGATED != 0)
        low = conjugate(low);
    else
        high = conjugate(high);
    float scale = k == 0u ? 0.5 : 0.5 * inner;
    low *= scale;
    high *= scale;
}
