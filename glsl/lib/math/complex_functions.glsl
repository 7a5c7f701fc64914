// Exponentials, logarithms, powers and circular functions of complex numbers

#include "complex.glsl"
#include "exponential.glsl"
#include "hyperbolic.glsl"
#include "trigonometric.glsl"

vec2 complex_exp(vec2 x) {
    float size = precise_exp(x.x);
    if (x.y == 0.0) return vec2(size, x.y);
    return size * vec2(precise_cos(x.y), precise_sin(x.y));
}

vec2 complex_expm1(vec2 x) {
    float size = precise_exp(x.x), half_sine = precise_sin(0.5 * x.y);
    float real = precise_expm1(x.x) * precise_cos(x.y) - 2.0 * half_sine * half_sine;
    return vec2(real, size * precise_sin(x.y));
}

// log|x|, as half the logarithm of |x|^2: near 1 by its distance from it, elsewhere by the
// square of x / 2^n, which is from 1 to 32
float log_magnitude(vec2 x) {
    float large = max(abs(x.x), abs(x.y)), small = min(abs(x.x), abs(x.y));
    bool near_one = large > 0.5 && large < 1.5;
    float apart = fma(large - 1.0, large + 1.0, small * small);
    float raised = large < 1.17549435e-38 ? 24.0 : 0.0, raise = power_of_two(raised);
    float n = min(float(int(floatBitsToUint(large * raise) >> 23) - 127), 126.0);
    float scale = power_of_two(-n);
    float width = large * raise * scale, height = small * raise * scale;
    float twice = 2.0 * (n - raised), rest;
    float square = near_one ? 1.0 + apart : fma(width, width, height * height);
    float f = reduce_logarithm(square, rest), down = power_of_two(-rest);
    // 1 + apart has lost the last bits of apart.
    f = near_one ? fma(apart, down, down - 1.0) : f;
    float value = 0.5 * logarithm(f, near_one ? rest : rest + twice);
    value = large == 0.0 ? -INFINITE : x.x != x.x || x.y != x.y ? NOT_A_NUMBER : value;
    return isinf(x.x) || isinf(x.y) ? INFINITE : value;
}

vec2 complex_log(vec2 x) {
    return vec2(log_magnitude(x), precise_atan2(x.y, x.x));
}

vec2 complex_log1p(vec2 x) {
    vec2 y = vec2(1.0 + x.x, x.y);
    float apart = fma(x.x, x.x + 2.0, x.y * x.y);
    float real = abs(x.x) < 0.5 && abs(x.y) < 0.5 ? 0.5 * precise_log1p(apart) : log_magnitude(y);
    return vec2(real, precise_atan2(y.y, y.x));
}

vec2 complex_power(vec2 x, vec2 y) {
    if (y == vec2(0)) return vec2(1.0, 0.0);
    if (y == vec2(1.0, 0.0)) return x;
    if (y == vec2(2.0, 0.0)) return complex_product(x, x);
    if (x == vec2(0)) return vec2(0);
    return complex_exp(complex_product(y, complex_log(x)));
}

vec2 complex_sinh(vec2 x) {
    return vec2(precise_sinh(x.x) * precise_cos(x.y), precise_cosh(x.x) * precise_sin(x.y));
}

vec2 complex_cosh(vec2 x) {
    return vec2(precise_cosh(x.x) * precise_cos(x.y), precise_sinh(x.x) * precise_sin(x.y));
}

// Source: Kahan, "Branch Cuts for Complex Elementary Functions", 1987.
vec2 complex_tanh(vec2 x) {
    if (abs(x.x) > 11.0) {
        float small = precise_exp(-2.0 * abs(x.x));
        float imaginary = 4.0 * precise_sin(x.y) * precise_cos(x.y) * small;
        return vec2(x.x < 0.0 ? -1.0 : 1.0, imaginary);
    }
    float t = precise_tan(x.y), s = precise_sinh(x.x);
    float b = fma(t, t, 1.0), divisor = fma(b * s, s, 1.0);
    return vec2(b * sqrt(fma(s, s, 1.0)) * s, t) / divisor;
}

vec2 complex_sin(vec2 x) {
    return vec2(precise_sin(x.x) * precise_cosh(x.y), precise_cos(x.x) * precise_sinh(x.y));
}

vec2 complex_cos(vec2 x) {
    return vec2(precise_cos(x.x) * precise_cosh(x.y), -precise_sin(x.x) * precise_sinh(x.y));
}

vec2 complex_tan(vec2 x) {
    vec2 turned = complex_tanh(vec2(-x.y, x.x));
    return vec2(turned.y, -turned.x);
}

// Inverses, from the same source: products of roots of 1 - x and 1 + x have its cuts.
vec2 complex_asin(vec2 x) {
    vec2 less = complex_root(vec2(1.0 - x.x, -x.y)), more = complex_root(vec2(1.0 + x.x, x.y));
    float imaginary = precise_asinh(less.x * more.y - less.y * more.x);
    return vec2(precise_atan2(x.x, complex_product(less, more).x), imaginary);
}

vec2 complex_acos(vec2 x) {
    vec2 less = complex_root(vec2(1.0 - x.x, -x.y)), more = complex_root(vec2(1.0 + x.x, x.y));
    float imaginary = precise_asinh(more.x * less.y - more.y * less.x);
    return vec2(2.0 * precise_atan2(less.x, more.x), imaginary);
}

vec2 complex_asinh(vec2 x) {
    vec2 turned = complex_asin(vec2(-x.y, x.x));
    return vec2(turned.y, -turned.x);
}

vec2 complex_acosh(vec2 x) {
    vec2 less = complex_root(vec2(x.x - 1.0, x.y)), more = complex_root(vec2(x.x + 1.0, x.y));
    float real = precise_asinh(less.x * more.x + less.y * more.y);
    return vec2(real, 2.0 * precise_atan2(less.y, more.x));
}

vec2 complex_atanh(vec2 x) {
    float apart = 1.0 - x.x, square = x.y * x.y;
    float real = 0.25 * precise_log1p(4.0 * x.x / fma(apart, apart, square));
    float imaginary = 0.5 * precise_atan2(2.0 * x.y, fma(apart, 1.0 + x.x, -square));
    return vec2(real, imaginary);
}

vec2 complex_atan(vec2 x) {
    vec2 turned = complex_atanh(vec2(-x.y, x.x));
    return vec2(turned.y, -turned.x);
}
