// Transforms of 2, 4, 8, and odd numbers up to 13, or LARGEST_RADIX, in registers
//
// INVERSE: a constant, whether factors are conjugates.

#include "lib/math/trigonometric.glsl"
#include "fft/product.glsl"

// The longest transform of one step
#ifdef LARGEST_RADIX
const uint MOST = LARGEST_RADIX;
#else
const uint MOST = 13;
#endif
const float HALF_ROOT = 0.707106781;

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

// value times root(part, whole): eighths of a circle take no product.
vec2 turned_by_root(vec2 value, uint part, uint whole) {
    if (part == 0) return value;
    if (8 * part % whole != 0) return product(value, root(part, whole));
    uint eighths = 8 * part / whole;
    if ((eighths & 1) != 0) value = HALF_ROOT * (value + turned(value));
    if ((eighths & 2) != 0) value = turned(value);
    return (eighths & 4) != 0 ? -value : value;
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
