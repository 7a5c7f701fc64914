// Circular functions of float64 and their inverses
//
// Angles are reduced by pi / 2 in four parts up to 2^22, and beyond in integers. Series of
// Taylor; errors are a few ulp.
// source  Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983

const double HALF_PI_FIRST = 1.57079632679489655800e+00lf;
const double HALF_PI_SECOND = 6.12323399573676603587e-17lf;
const double HALF_PI_THIRD = -1.49738490485916983000e-33lf;

// 2 / pi after 32 zero bits; not an array, which software drivers copy
const uvec4 TWO_OVER_PI_0 =
    uvec4(0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u);
const uvec4 TWO_OVER_PI_1 =
    uvec4(0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
const uvec4 TWO_OVER_PI_2 =
    uvec4(0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau);
const uvec4 TWO_OVER_PI_3 =
    uvec4(0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u);
const uvec4 TWO_OVER_PI_4 =
    uvec4(0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u);
const uvec4 TWO_OVER_PI_5 =
    uvec4(0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu);
const uvec4 TWO_OVER_PI_6 =
    uvec4(0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu);
const uvec4 TWO_OVER_PI_7 =
    uvec4(0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u);
const uvec4 TWO_OVER_PI_8 =
    uvec4(0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u);
const uvec4 TWO_OVER_PI_9 =
    uvec4(0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u);

// Words `first` to `first` + 7, for `first` up to 31, by the bits of that
void words_of_two_over_pi(uint first, out uvec4 a, out uvec4 b) {
    bool far = (first & 16u) != 0u;
    a = far ? TWO_OVER_PI_4 : TWO_OVER_PI_0;
    b = far ? TWO_OVER_PI_5 : TWO_OVER_PI_1;
    uvec4 c = far ? TWO_OVER_PI_6 : TWO_OVER_PI_2;
    uvec4 d = far ? TWO_OVER_PI_7 : TWO_OVER_PI_3;
    uvec4 e = far ? TWO_OVER_PI_8 : TWO_OVER_PI_4;
    uvec4 f = far ? TWO_OVER_PI_9 : TWO_OVER_PI_5;
    bool eight = (first & 8u) != 0u, four = (first & 4u) != 0u;
    a = eight ? c : a;
    b = eight ? d : b;
    c = eight ? e : c;
    d = eight ? f : d;
    a = four ? b : a;
    b = four ? c : b;
    c = four ? d : c;
    if ((first & 2u) != 0u) {
        a = uvec4(a.zw, b.xy);
        b = uvec4(b.zw, c.xy);
        c = c.zwzw;
    }
    if ((first & 1u) != 0u) {
        a = uvec4(a.yzw, b.x);
        b = uvec4(b.yzw, c.x);
    }
}

// low + a * b + carry, of which the upper word is the next carry
void add_product(uint a, uint b, inout uint low, inout uint carry) {
    uint high, part;
    umulExtended(a, b, high, part);
    uint sum = part + low;
    high += sum < part ? 1u : 0u;
    low = sum + carry;
    carry = high + (low < sum ? 1u : 0u);
}

// Bits of word `k` and the one before, from bit `shift` of that on
uint shifted_word(uint word, uint before, uint shift) {
    return shift == 0u ? word : word << shift | before >> (32u - shift);
}

// `reduce_angle` from 2^22 on: x is m 2^e, and of its product with 2 / pi only bits below 4
// count, which begin in a word of the table. Seven words give 2^-138.
double reduce_large_angle(double x, out uint quarter) {
    uvec2 bits = unpackDouble2x32(x);
    uint e = (bits.y >> 20 & 0x7ffu) - 1075u;
    uint first = (e + 30u) >> 5, shift = e + 30u & 31u;
    uvec4 upper, lower;
    words_of_two_over_pi(first, upper, lower);
    uint low = bits.x, high = bits.y & 0x000fffffu | 0x00100000u;
    uint p0 = 0u, p1 = 0u, p2 = 0u, p3 = 0u, p4 = 0u, p5 = 0u, p6 = 0u, carry = 0u;
    add_product(lower.z, low, p0, carry);
    add_product(lower.y, low, p1, carry);
    add_product(lower.x, low, p2, carry);
    add_product(upper.w, low, p3, carry);
    add_product(upper.z, low, p4, carry);
    add_product(upper.y, low, p5, carry);
    add_product(upper.x, low, p6, carry);
    carry = 0u;
    add_product(lower.z, high, p1, carry);
    add_product(lower.y, high, p2, carry);
    add_product(lower.x, high, p3, carry);
    add_product(upper.w, high, p4, carry);
    add_product(upper.z, high, p5, carry);
    add_product(upper.y, high, p6, carry);
    p6 = shifted_word(p6, p5, shift);
    p5 = shifted_word(p5, p4, shift);
    p4 = shifted_word(p4, p3, shift);
    p3 = shifted_word(p3, p2, shift);
    p2 = shifted_word(p2, p1, shift);
    // Two bits are quarters, and the nearest counts.
    quarter = p6 >> 30;
    uvec4 part = uvec4(p6 << 2 | p5 >> 30, p5 << 2 | p4 >> 30, p4 << 2 | p3 >> 30,
                       p3 << 2 | p2 >> 30);
    bool negative = (part.x & 0x80000000u) != 0u;
    if (negative) {
        part = ~part;
        quarter += 1u;
    }
    double rest = double(part.w) * 2.3283064365386963e-10lf + double(part.z);
    rest = rest * 2.3283064365386963e-10lf + double(part.y);
    rest = (rest * 2.3283064365386963e-10lf + double(part.x)) * 2.3283064365386963e-10lf;
    rest = fma(rest, HALF_PI_FIRST, rest * HALF_PI_SECOND);
    if (negative != (int(bits.y) < 0)) rest = -rest;
    if (int(bits.y) < 0) quarter = 0u - quarter;
    return rest;
}

// x = quarter * pi / 2 + rest; the rest, at most pi / 4, is returned. Below 2^22 products
// of quarters and the first three parts of pi / 2 are exact.
double reduce_angle(double x, out uint quarter) {
    if (abs(x) >= 4194304.0lf) return reduce_large_angle(x, quarter);
    precise double shifted = fma(x, 6.36619772367581382433e-01lf, 6755399441055744.0lf);
    precise double n = shifted - 6755399441055744.0lf;
    quarter = unpackDouble2x32(shifted).x;
    precise double near = fma(-n, 1.5707963267341256lf, x);
    precise double second = n * 6.07710049817245e-11lf, sum = near - second;
    precise double lost = (near - sum) - second;
    precise double rest = fma(-n, 8.333742909677158e-20lf, sum);
    return rest + fma(-n, 8.843720566135701e-29lf, lost);
}

double sine_near_zero(double x) {
    double u = x * x;
    double y = 1.0lf / 355687428096000.0lf;
    y = fma(y, u, -1.0lf / 1307674368000.0lf);
    y = fma(y, u, 1.0lf / 6227020800.0lf);
    y = fma(y, u, -1.0lf / 39916800.0lf);
    y = fma(y, u, 1.0lf / 362880.0lf);
    y = fma(y, u, -1.0lf / 5040.0lf);
    y = fma(y, u, 1.0lf / 120.0lf);
    return fma(x * u, fma(y, u, -1.0lf / 6.0lf), x);
}

double cosine_near_zero(double x) {
    double u = x * x;
    double y = -1.0lf / 6402373705728000.0lf;
    y = fma(y, u, 1.0lf / 20922789888000.0lf);
    y = fma(y, u, -1.0lf / 87178291200.0lf);
    y = fma(y, u, 1.0lf / 479001600.0lf);
    y = fma(y, u, -1.0lf / 3628800.0lf);
    y = fma(y, u, 1.0lf / 40320.0lf);
    y = fma(y, u, -1.0lf / 720.0lf);
    y = fma(y, u, 1.0lf / 24.0lf);
    return fma(u * u, y, fma(-0.5lf, u, 1.0lf));
}

// sin(x + shift * pi / 2)
double shifted_sine(double x, uint shift) {
    uint quarter;
    double rest = reduce_angle(x, quarter);
    quarter += shift;
    // Both are computed, for neighbours need the one or the other.
    double sine = sine_near_zero(rest), cosine = cosine_near_zero(rest);
    double value = (quarter & 1u) == 0u ? sine : cosine;
    value = (quarter & 2u) == 0u ? value : -value;
    return abs(x) < INFINITE_DOUBLE ? value : NAN_DOUBLE;
}

double precise_sin(double x) {
    double value = shifted_sine(x, 0u);
    return x == 0.0lf ? x : value;
}

double precise_cos(double x) {
    return shifted_sine(x, 1u);
}

double precise_tan(double x) {
    uint quarter;
    double rest = reduce_angle(x, quarter);
    double sine = sine_near_zero(rest), cosine = cosine_near_zero(rest);
    bool odd = (quarter & 1u) != 0u;
    double above = odd ? cosine : sine, below = odd ? sine : cosine;
    double value = above / below;
    value = odd ? -value : value;
    return x == 0.0lf ? x : abs(x) < INFINITE_DOUBLE ? value : NAN_DOUBLE;
}

// For 0 <= x <= 1, about the nearest of 0, 1/2 and 1: |t| is at most 1/4 then.
double arctangent_near_zero(double x) {
    double centre = x < 0.25lf ? 0.0lf : x < 0.75lf ? 0.5lf : 1.0lf;
    double known = x < 0.25lf ? 0.0lf : 4.63647609000806093515e-01lf;
    known = x < 0.75lf ? known : 7.85398163397448278999e-01lf;
    double t = (x - centre) / (1.0lf + x * centre), u = t * t;
    double y = 1.0lf / 25.0lf;
    y = fma(y, u, -1.0lf / 23.0lf);
    y = fma(y, u, 1.0lf / 21.0lf);
    y = fma(y, u, -1.0lf / 19.0lf);
    y = fma(y, u, 1.0lf / 17.0lf);
    y = fma(y, u, -1.0lf / 15.0lf);
    y = fma(y, u, 1.0lf / 13.0lf);
    y = fma(y, u, -1.0lf / 11.0lf);
    y = fma(y, u, 1.0lf / 9.0lf);
    y = fma(y, u, -1.0lf / 7.0lf);
    y = fma(y, u, 1.0lf / 5.0lf);
    y = fma(y, u, -1.0lf / 3.0lf);
    return known + fma(t * u, y, t);
}

// Special cases as in C, F.10.1.4
double precise_atan2(double y, double x) {
    double width = abs(x), height = abs(y);
    double large = max(width, height), small = min(width, height);
    double ratio = small == large ? 1.0lf : small / large;
    double value = arctangent_near_zero(large == 0.0lf || small == 0.0lf ? 0.0lf : ratio);
    if (height > width) value = HALF_PI_FIRST - (value - HALF_PI_SECOND);
    bool left = unpackDouble2x32(x).y >> 31 != 0u;
    if (left) value = 2.0lf * HALF_PI_FIRST - (value - 2.0lf * HALF_PI_SECOND);
    bool below = unpackDouble2x32(y).y >> 31 != 0u;
    return x != x || y != y ? NAN_DOUBLE : below ? -value : value;
}

double precise_atan(double x) {
    return x == 0.0lf ? x : precise_atan2(x, 1.0lf);
}

// asin(s) - s for z = s * s up to 1/4; the error is 2^-58 of asin(s).
double arcsine_tail(double s, double z) {
    double y = 0.028757851367423374lf;
    y = fma(y, z, -0.014851887071250021lf);
    y = fma(y, z, 0.017400879442695954lf);
    y = fma(y, z, 0.005457506718639592lf);
    y = fma(y, z, 0.010322814350185974lf);
    y = fma(y, z, 0.011479177415184873lf);
    y = fma(y, z, 0.013971212973552936lf);
    y = fma(y, z, 0.017352392720869973lf);
    y = fma(y, z, 0.02237217294214989lf);
    y = fma(y, z, 0.030381944138531247lf);
    y = fma(y, z, 0.04464285714635543lf);
    y = fma(y, z, 0.07499999999998433lf);
    y = fma(y, z, 0.16666666666666669lf);
    return s * z * y;
}

// Beyond 1/2 both are twice the arcsine of sqrt((1 - |x|) / 2), and angles beside it.
double precise_asin(double x) {
    double size = abs(x), z = size > 0.5lf ? 0.5lf - 0.5lf * size : x * x;
    double s = size > 0.5lf ? sqrt(z) : size, tail = arcsine_tail(s, z);
    double far = HALF_PI_FIRST - 2.0lf * s + (HALF_PI_SECOND - 2.0lf * tail);
    double value = size > 0.5lf ? far : s + tail;
    bool below = unpackDouble2x32(x).y >> 31 != 0u;
    return !(size <= 1.0lf) ? NAN_DOUBLE : below ? -value : value;
}

double precise_acos(double x) {
    double size = abs(x), z = size > 0.5lf ? 0.5lf - 0.5lf * size : x * x;
    double s = size > 0.5lf ? sqrt(z) : x, tail = arcsine_tail(s, z);
    double near = HALF_PI_FIRST - (s - (HALF_PI_SECOND - tail));
    double far = 2.0lf * (s + tail);
    if (x < 0.0lf) far = 2.0lf * (HALF_PI_FIRST - (s + (tail - HALF_PI_SECOND)));
    return !(size <= 1.0lf) ? NAN_DOUBLE : size > 0.5lf ? far : near;
}

// sin(x) / x, and 1 near 0
double sine_quotient(double x) {
    double value = shifted_sine(x, 0u) / x;
    return abs(x) < 7.450580596923828e-9lf ? 1.0lf : value;
}

double sine_quotient_slope(double x) {
    if (abs(x) >= 1.5lf || x != x) return (precise_cos(x) - precise_sin(x) / x) / x;
    double u = x * x;
    double y = 1.5472680682522736e-24lf;
    y = fma(y, u, -8.509974375387505e-22lf);
    y = fma(y, u, 3.9145882126782523e-19lf);
    y = fma(y, u, -1.4797143443923793e-16lf);
    y = fma(y, u, 4.498331606952833e-14lf);
    y = fma(y, u, -1.0706029224547743e-11lf);
    y = fma(y, u, 1.9270852604185937e-09lf);
    y = fma(y, u, -2.505210838544172e-07lf);
    y = fma(y, u, 2.2045855379188714e-05lf);
    y = fma(y, u, -0.0011904761904761906lf);
    y = fma(y, u, 0.03333333333333333lf);
    y = fma(y, u, -0.3333333333333333lf);
    return x * y;
}

// The polynomial has an error of 2^-61.
double normalized_sinc(double x) {
    precise double rest = fma(-2.0lf, nearest_whole(0.5lf * x), x);
    double size = abs(rest), folded = rest < 0.0lf ? size - 1.0lf : 1.0lf - size;
    double t = size > 0.5lf ? folded : rest, u = t * t;
    double y = 2.4502943624559793e-07lf;
    y = fma(y, u, -6.972099660851199e-06lf);
    y = fma(y, u, 0.0001484278414189103lf);
    y = fma(y, u, -0.0023460808954639607lf);
    y = fma(y, u, 0.02614784780555096lf);
    y = fma(y, u, -0.19075182412149616lf);
    y = fma(y, u, 0.8117424252833393lf);
    y = fma(y, u, -1.6449340668482264lf);
    y = fma(y, u, 1.0lf);
    double far = t * y / x;
    return abs(x) <= 0.5lf ? y : far;
}
