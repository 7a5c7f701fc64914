// Arithmetic of every type: division with remainder, signs, bits and powers

#include "division.glsl"
#include "rounding.glsl"
#include "sign.glsl"
#include "upper_half.glsl"

// x - y * trunc(x / y) for normal x >= y > 0 with a quotient below 2^11, exact: the
// quotient, off by one at most, times either half of y is, and so is each difference.
float near_remainder(float x, float y) {
    precise float quotient = trunc(x / y), upper = upper_half(y);
    precise float rest = (x - quotient * upper) - quotient * (y - upper);
    if (rest < 0.0) rest += y;
    return rest >= y ? rest - y : rest;
}

// x - y * trunc(x / y), exact: long division of the significands, eight bits at a time.
float truncated_remainder(float x, float y) {
    uint large = floatBitsToUint(x) & 0x7fffffffu;
    uint small = floatBitsToUint(y) & 0x7fffffffu;
    bool undefined = large >= 0x7f800000u || small > 0x7f800000u || small == 0u;
    if (undefined) return uintBitsToFloat(0x7fc00000u);
    if (large < small) return x;
    int exponent = max(int(small >> 23), 1);
    int steps = max(int(large >> 23), 1) - exponent;
    // From 2^-100 on nothing is a denormal number, which a device may take as 0.
    if (steps <= 10 && small >= 0x0d800000u && large <= 0x7e800000u) {
        float rest = near_remainder(uintBitsToFloat(large), uintBitsToFloat(small));
        return uintBitsToFloat(floatBitsToUint(rest) | floatBitsToUint(x) & 1u << 31);
    }
    uint divisor = (small & 0x007fffffu) | (small >= 0x00800000u ? 0x00800000u : 0u);
    uint rest = (large & 0x007fffffu) | (large >= 0x00800000u ? 0x00800000u : 0u);
    rest %= divisor;
    while (steps > 0 && rest != 0u) {
        int shift = min(steps, 8);
        rest = (rest << shift) % divisor;
        steps -= shift;
    }
    // The rest times 2^(exponent - 150), as a normal or a denormal number
    int shift = min(23 - findMSB(rest), exponent - 1);
    uint bits = rest == 0u ? 0u : rest << shift;
    if (bits >= 0x00800000u) bits = (bits & 0x007fffffu) | uint(exponent - shift) << 23;
    return uintBitsToFloat(bits | floatBitsToUint(x) & 1u << 31);
}

// The same of 2-byte floats: their products with quotients below 2^12 are exact, and so is
// what is left.
float quick_truncated_remainder(float x, float y) {
    float large = abs(x), small = abs(y);
    float quotient = trunc(large * (1.0 / small));
    // Nothing is a denormal number, which a device may take as 0.
    bool near = quotient < 4096.0 && small > 7.88860905e-31 && small < 1e+30;
    if (!near) return truncated_remainder(x, y);
    float rest = fma(-quotient, small, large);
    if (rest < 0.0) rest += small;
    rest = rest >= small ? rest - small : rest;
    return uintBitsToFloat(floatBitsToUint(rest) | floatBitsToUint(x) & 1u << 31);
}

bool has_sign(float x) {
    return floatBitsToUint(x) >> 31 != 0u;
}

// x is mantissa(x) * 2^exponent(x), and the mantissa from 1/2 to 1; zeros, infinities
// and NaN are their own, with an exponent of 0.
float mantissa(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    if (size == 0u || size >= 0x7f800000u) return x;
    if (size < 1u << 23) size <<= 23 - findMSB(size);
    return uintBitsToFloat(bits & 1u << 31 | size & 0x7fffffu | 126u << 23);
}

int exponent(float x) {
    uint size = floatBitsToUint(x) & 0x7fffffffu;
    if (size == 0u || size >= 0x7f800000u) return 0;
    return size < 1u << 23 ? findMSB(size) - 148 : int(size >> 23) - 126;
}

// With the sign of y, as in Python
float floored_remainder(float x, float y) {
    float rest = truncated_remainder(x, y);
    return rest != 0.0 && (rest < 0.0) != (y < 0.0) ? rest + y : rest;
}

float quick_floored_remainder(float x, float y) {
    float rest = quick_truncated_remainder(x, y);
    return rest != 0.0 && (rest < 0.0) != (y < 0.0) ? rest + y : rest;
}

// Rounded down from the exact quotient, as in Python
float floored_quotient(float x, float y) {
    float rest = truncated_remainder(x, y);
    if (y == 0.0) return divided(x, y);
    float quotient = divided(x - rest, y);
    if (rest != 0.0 && (rest < 0.0) != (y < 0.0)) quotient -= 1.0;
    float whole = floor(quotient);
    if (whole == 0.0 && quotient <= 0.5) return with_sign_of(0.0, divided(x, y));
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

float truncated_quotient(float x, float y) {
    return trunc(rounded_quotient(x, y));
}

// x moved by `size` towards 0, at most to it; whatever NaN is clamped to, it stays NaN.
float soft_shrunk(float x, float size) {
    return x - clamp(x, -size, size);
}

float magnitude(float x) {
    return abs(x);
}

float signum(float x) {
    return float(x > 0.0) - float(x < 0.0);
}

bool is_infinite(float x) {
    return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u;
}

bool is_upper_end(float x) {
    return floatBitsToUint(x) == 0x7f800000u;
}

bool is_lower_end(float x) {
    return floatBitsToUint(x) == 0xff800000u;
}

// sqrt(x * x + y * y), scaled so that no square overflows or is lost
float precise_hypot(float x, float y) {
    float large = max(abs(x), abs(y));
    float scale = large > 1e18 ? 8.47032947e-22 : large < 1e-14 ? 1.18059162e+21 : 1.0;
    float width = x * scale, height = y * scale;
    float value = sqrt(width * width + height * height) / scale;
    return is_infinite(x) || is_infinite(y) ? uintBitsToFloat(0x7f800000u) : value;
}

bool bits_and(bool x, bool y) {
    return x && y;
}

bool bits_or(bool x, bool y) {
    return x || y;
}

bool bits_xor(bool x, bool y) {
    return x != y;
}

bool bits_not(bool x) {
    return !x;
}

// Without `precise` a driver may make x * (1 / 6) + 0.5 of it, which cancels near -3.
float raised_sixth(float x) {
    precise float raised = x + 3.0;
    return raised / 6.0;
}

// x, but 2^24 times that where it is a denormal number: made of its bits, for a device
// may take it as 0.
float lifted(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    if (size >= 0x00800000u || size == 0u) return x;
    float value = float(size) * 2.3509887e-38;
    return int(bits) < 0 ? -value : value;
}

// Of a float whose lower `shift` bits are 0, to the next such float, by its bits: a device
// may take denormal numbers as 0. Branches would take longer than both sides.
float neighbour_of_width(float x, float y, uint shift) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu, step = 1u << shift;
    uint other = floatBitsToUint(y), other_size = other & 0x7fffffffu;
    int place = int(bits) < 0 ? -int(size) : int(size);
    int target = int(other) < 0 ? -int(other_size) : int(other_size);
    bool outwards = (target > place) == (place > 0);
    uint moved = outwards ? bits + step : bits - step;
    moved = size == 0u ? other & 1u << 31 | step : moved;
    moved = place == target ? other : moved;
    return any(bvec2(x != x, y != y)) ? uintBitsToFloat(0x7fc00000u)
                                      : uintBitsToFloat(moved);
}

// The next number from x towards y
float neighbour(float x, float y) {
    return neighbour_of_width(x, y, 0u);
}

float bfloat16_neighbour(float x, float y) {
    return neighbour_of_width(x, y, 16u);
}

// Numbers up to 2^-14 are 2^-24 apart; -inf and inf follow 65504.
float half_neighbour(float x, float y) {
    float size = abs(x), step = y > x ? 5.9604645e-8 : -5.9604645e-8;
    float near = x + step, zero = with_sign_of(0.0, x);
    near = near == 0.0 ? zero : near;
    near = x == y ? y : near;
    float far = neighbour_of_width(x, y, 13u), largest = with_sign_of(65504.0, x);
    far = all(bvec3(size > 65504.0, x != y, y == y)) ? largest : far;
    return all(bvec2(size <= 6.1035156e-5, y == y)) ? near : far;
}

#ifdef FLOAT64
// Of a double 2^54 times as much.
double lifted(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint size = bits.y & 0x7fffffffu;
    if (size >= 0x00100000u || (size | bits.x) == 0u) return x;
    double value = double(size) * 4294967296.0lf + double(bits.x);
    value *= 8.9002954340288055e-308lf;
    return int(bits.y) < 0 ? -value : value;
}

double precise_hypot(double x, double y) {
    double large = max(abs(x), abs(y));
    double scale = large > 1e150lf ? 1e-200lf : large < 1e-120lf ? 1e200lf : 1.0lf;
    double width = x * scale, height = y * scale;
    double value = sqrt(width * width + height * height) / scale;
    double infinite = packDouble2x32(uvec2(0u, 0x7ff00000u));
    return abs(x) == infinite || abs(y) == infinite ? infinite : value;
}

// x - y * trunc(x / y), exact: what is subtracted is the divisor times the largest power
// of 2 below the rest. Denormal numbers, which have one exponent, are scaled.
double truncated_remainder(double x, double y) {
    double rest = abs(x), divisor = abs(y), scale = 1.0lf;
    bool defined = rest < packDouble2x32(uvec2(0u, 0x7ff00000u)) && divisor > 0.0lf;
    while (defined && rest >= divisor) {
        if (scale == 1.0lf && rest < 1e-290lf) {
            rest *= 18014398509481984.0lf;
            divisor *= 18014398509481984.0lf;
            scale = 5.5511151231257827e-17lf;
        }
        uvec2 small = unpackDouble2x32(divisor);
        uint exponent = unpackDouble2x32(rest).y >> 20;
        precise double part = divisor;
        if (exponent > (small.y >> 20) + 1u) {
            if (small.y >> 20 == 0u)
                small = unpackDouble2x32(divisor * 18014398509481984.0lf);
            uint high = small.y & 0x000fffffu | exponent - 1u << 20;
            part = packDouble2x32(uvec2(small.x, high));
        }
        precise double left = rest - part;
        rest = left;
    }
    rest *= scale;
    if (!defined) rest = packDouble2x32(uvec2(0u, 0x7ff80000u));
    return unpackDouble2x32(x).y >> 31 != 0u ? -rest : rest;
}

double with_sign_of(double x, double y);

bool has_sign(double x) {
    return unpackDouble2x32(x).y >> 31 != 0u;
}

double mantissa(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint size = bits.y & 0x7fffffffu;
    if ((bits.x | size) == 0u || size >= 0x7ff00000u) return x;
    if (size < 1u << 20) {
        bits = unpackDouble2x32(x * 18014398509481984.0lf);
        size = bits.y & 0x7fffffffu;
    }
    bits.y = bits.y & 1u << 31 | size & 0xfffffu | 1022u << 20;
    return packDouble2x32(bits);
}

int exponent(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint size = bits.y & 0x7fffffffu;
    if ((bits.x | size) == 0u || size >= 0x7ff00000u) return 0;
    if (size >= 1u << 20) return int(size >> 20) - 1022;
    bits = unpackDouble2x32(x * 18014398509481984.0lf);
    return int((bits.y & 0x7fffffffu) >> 20) - 1076;
}

double floored_remainder(double x, double y) {
    double rest = truncated_remainder(x, y);
    return rest != 0.0lf && (rest < 0.0lf) != (y < 0.0lf) ? rest + y : rest;
}

double floored_quotient(double x, double y) {
    double rest = truncated_remainder(x, y);
    if (y == 0.0lf) return divided(x, y);
    double quotient = divided(x - rest, y);
    if (rest != 0.0lf && (rest < 0.0lf) != (y < 0.0lf)) quotient -= 1.0lf;
    double whole = floor(quotient);
    if (whole == 0.0lf && quotient <= 0.5lf)
        return with_sign_of(0.0lf, divided(x, y));
    return quotient - whole > 0.5lf ? whole + 1.0lf : whole;
}

double truncated_quotient(double x, double y) {
    return whole_part(divided(x, y));
}

double neighbour(double x, double y) {
    if (x != x || y != y) return packDouble2x32(uvec2(0u, 0x7ff80000u));
    if (x == y) return y;
    if (x == 0.0lf) return with_sign_of(packDouble2x32(uvec2(1u, 0u)), y);
    uvec2 bits = unpackDouble2x32(x);
    if ((y > x) == (x > 0.0lf)) {
        bits += uvec2(1u, bits.x == 0xffffffffu ? 1u : 0u);
    } else {
        bits -= uvec2(1u, bits.x == 0u ? 1u : 0u);
    }
    return packDouble2x32(bits);
}

double raised_sixth(double x) {
    return (x + 3.0) / 6.0;
}

double soft_shrunk(double x, double size) {
    return x > size ? x - size : x < -size ? x + size : x != x ? x : 0.0lf;
}

double magnitude(double x) {
    return abs(x);
}

double signum(double x) {
    return double(x > 0.0) - double(x < 0.0);
}

double with_sign_of(double x, double y) {
    uvec2 bits = unpackDouble2x32(x);
    uint sign = unpackDouble2x32(y).y & 1u << 31;
    return packDouble2x32(uvec2(bits.x, bits.y & 0x7fffffffu | sign));
}

bool is_infinite(double x) {
    uvec2 bits = unpackDouble2x32(x);
    return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

bool is_upper_end(double x) {
    return unpackDouble2x32(x) == uvec2(0u, 0x7ff00000u);
}

bool is_lower_end(double x) {
    return unpackDouble2x32(x) == uvec2(0u, 0xfff00000u);
}
#endif

// Quotients of magnitudes: by 0 it is that by 1, as processors stop there, also in lanes
// that a branch leaves out. Most of 64 bits are of numbers of 32, whose division takes a
// fraction of the time where none is an instruction.
uint quotient_of(uint x, uint y) {
    return x / max(y, 1u);
}

uint divisor_of(uint x, uint y) {
    while (y != 0u) {
        uint rest = x - quotient_of(x, y) * y;
        x = y;
        y = rest;
    }
    return x;
}

#ifdef INT64
uint64_t quotient_of(uint64_t x, uint64_t y) {
#ifndef DIVIDES_INT64
    if (uint((x | y) >> 32) == 0u) return uint64_t(quotient_of(uint(x), uint(y)));
#endif
    return x / max(y, uint64_t(1));
}

uint64_t divisor_of(uint64_t x, uint64_t y) {
    while (uint((x | y) >> 32) != 0u && y != uint64_t(0)) {
        uint64_t rest = x - x / max(y, uint64_t(1)) * y;
        x = y;
        y = rest;
    }
    return y == uint64_t(0) ? x : uint64_t(divisor_of(uint(x), uint(y)));
}
#endif

// Integers wrap. Division by 0 gives 0. Quotients are of magnitudes, as % is undefined
// for negative operands, and that of the smallest integer and -1 stops some processors.
#define INTEGER_FUNCTIONS(T, MAGNITUDE, BITS)                                          \
    T magnitude(T x) {                                                                 \
        return x < T(0) ? T(0) - x : x;                                                \
    }                                                                                  \
    T truncated_quotient(T x, T y) {                                                   \
        T found = T(quotient_of(MAGNITUDE(magnitude(x)), MAGNITUDE(magnitude(y))));    \
        found = (x < T(0)) != (y < T(0)) ? T(0) - found : found;                       \
        return y == T(0) ? T(0) : found;                                               \
    }                                                                                  \
    T truncated_remainder(T x, T y) {                                                  \
        return y == T(0) ? T(0) : x - truncated_quotient(x, y) * y;                    \
    }                                                                                  \
    T floored_remainder(T x, T y) {                                                    \
        T rest = truncated_remainder(x, y);                                            \
        return rest != T(0) && (rest < T(0)) != (y < T(0)) ? rest + y : rest;          \
    }                                                                                  \
    T floored_quotient(T x, T y) {                                                     \
        T quotient = truncated_quotient(x, y);                                         \
        T rest = y == T(0) ? T(0) : x - quotient * y;                                  \
        bool down = rest != T(0) && (rest < T(0)) != (y < T(0));                       \
        return quotient - (down ? T(1) : T(0));                                        \
    }                                                                                  \
    T power(T x, T y) {                                                                \
        T minus_one = T(0) - T(1);                                                     \
        T result = T(1);                                                               \
        if (y < T(0)) {                                                                \
            T sign = (y & T(1)) == T(1) ? x : T(1);                                    \
            return x == T(1) || x == minus_one ? sign : T(0);                          \
        }                                                                              \
        while (y > T(0)) {                                                             \
            if ((y & T(1)) == T(1)) result *= x;                                       \
            x *= x;                                                                    \
            y >>= 1;                                                                   \
        }                                                                              \
        return result;                                                                 \
    }                                                                                  \
    T shifted_left(T x, T y) {                                                         \
        return y < T(0) || y >= T(BITS) ? T(0) : x << y;                               \
    }                                                                                  \
    T shifted_right(T x, T y) {                                                        \
        T rest = x < T(0) ? T(0) - T(1) : T(0);                                        \
        return y < T(0) || y >= T(BITS) ? rest : x >> y;                               \
    }                                                                                  \
    T greatest_divisor(T x, T y) {                                                     \
        return T(divisor_of(MAGNITUDE(magnitude(x)), MAGNITUDE(magnitude(y))));        \
    }                                                                                  \
    T signum(T x) {                                                                    \
        return x > T(0) ? T(1) : x < T(0) ? T(0) - T(1) : T(0);                        \
    }                                                                                  \
    T bits_and(T x, T y) {                                                             \
        return x & y;                                                                  \
    }                                                                                  \
    T bits_or(T x, T y) {                                                              \
        return x | y;                                                                  \
    }                                                                                  \
    T bits_xor(T x, T y) {                                                             \
        return x ^ y;                                                                  \
    }                                                                                  \
    T bits_not(T x) {                                                                  \
        return ~x;                                                                     \
    }

INTEGER_FUNCTIONS(int, uint, 32)
INTEGER_FUNCTIONS(uint, uint, 32)
#ifdef INT64
INTEGER_FUNCTIONS(int64_t, uint64_t, 64)
INTEGER_FUNCTIONS(uint64_t, uint64_t, 64)
#endif
