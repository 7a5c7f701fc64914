// Exponentials, logarithms and powers of float64, which GLSL has none of
//
// Series of Taylor, long enough for the last bit of float64 where arguments are reduced;
// the reductions are those of `lib/math/exponential.glsl`. Errors are a few ulp.
// source  Muller, Elementary Functions, 2016

#define INFINITE_DOUBLE packDouble2x32(uvec2(0u, 0x7ff00000u))
#define NAN_DOUBLE packDouble2x32(uvec2(0u, 0x7ff80000u))

// ln 2 in two parts; the first has 33 bits, so its product with an exponent is exact.
const double LN2_UPPER = 6.93147180369123816490e-01lf;
const double LN2_LOWER = 1.90821492927058770002e-10lf;

// 2^n for n from -1022 to 1023
double double_power_of_two(int n) {
    return packDouble2x32(uvec2(0u, uint(n + 1023) << 20));
}

// x * 2^n in two steps, so that neither factor leaves the range of float64.
double times_power_of_two(double x, int n) {
    int half_way = n >> 1;
    return x * double_power_of_two(half_way) * double_power_of_two(n - half_way);
}

// exp(x) - 1 for |x| <= ln(2) / 2; the next term is 2^-58 of it.
double expm1_near_zero(double x) {
    double y = 1.0lf / 6227020800.0lf;
    y = fma(y, x, 1.0lf / 479001600.0lf);
    y = fma(y, x, 1.0lf / 39916800.0lf);
    y = fma(y, x, 1.0lf / 3628800.0lf);
    y = fma(y, x, 1.0lf / 362880.0lf);
    y = fma(y, x, 1.0lf / 40320.0lf);
    y = fma(y, x, 1.0lf / 5040.0lf);
    y = fma(y, x, 1.0lf / 720.0lf);
    y = fma(y, x, 1.0lf / 120.0lf);
    y = fma(y, x, 1.0lf / 24.0lf);
    y = fma(y, x, 1.0lf / 6.0lf);
    return fma(x * x, fma(y, x, 0.5lf), x);
}

// x = n ln(2) + rest, for |x| <= 800; the rest is returned.
double reduce_exponent(double x, out int n) {
    double whole = roundEven(x * 1.44269504088896338700lf);
    n = int(whole);
    return fma(-whole, LN2_LOWER, fma(-whole, LN2_UPPER, x));
}

double precise_exp(double x) {
    int n;
    double rest = reduce_exponent(clamp(x, -760.0lf, 720.0lf), n);
    double value = times_power_of_two(1.0lf + expm1_near_zero(rest), n);
    return x != x ? x : value;
}

double precise_exp2(double x) {
    double bounded = clamp(x, -1100.0lf, 1030.0lf);
    double n = roundEven(bounded);
    double rest = (bounded - n) * 6.93147180559945286227e-01lf;
    double value = times_power_of_two(1.0lf + expm1_near_zero(rest), int(n));
    return x != x ? x : value;
}

double precise_expm1(double x) {
    int n;
    double small = expm1_near_zero(reduce_exponent(clamp(x, -50.0lf, 720.0lf), n));
    // Half of 2^n is in range for every n here but the last, where the result is not.
    double power = double_power_of_two(min(n - 1, 1023));
    double value = n == 0 ? small : 2.0lf * (power * small + (power - 0.5lf));
    if (x > 710.0lf) return INFINITE_DOUBLE;
    return x != x || x == 0.0lf ? x : value;
}

// x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); f is returned.
double reduce_logarithm(double x, out int n) {
    bool tiny = x < 2.2250738585072014e-308lf;
    uvec2 bits = unpackDouble2x32(tiny ? x * 18014398509481984.0lf : x);
    uint high = bits.y + (0x3ff00000u - 0x3fe6a09eu);
    n = int(high >> 20) - (tiny ? 1077 : 1023);
    return packDouble2x32(uvec2(bits.x, (high & 0x000fffffu) + 0x3fe6a09eu)) - 1.0lf;
}

// (atanh(s) / s - 1) / s^2 for |s| <= 0.172 and z = s^2; the next term is 2^-60 of it.
double arctanh_series(double z) {
    double y = 1.0lf / 23.0lf;
    y = fma(y, z, 1.0lf / 21.0lf);
    y = fma(y, z, 1.0lf / 19.0lf);
    y = fma(y, z, 1.0lf / 17.0lf);
    y = fma(y, z, 1.0lf / 15.0lf);
    y = fma(y, z, 1.0lf / 13.0lf);
    y = fma(y, z, 1.0lf / 11.0lf);
    y = fma(y, z, 1.0lf / 9.0lf);
    y = fma(y, z, 1.0lf / 7.0lf);
    y = fma(y, z, 1.0lf / 5.0lf);
    return fma(y, z, 1.0lf / 3.0lf);
}

// log(1 + f) + n ln(2), by log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + 2 s^2 series)
double logarithm(double f, int n) {
    double s = f / (2.0lf + f), z = s * s, square = 0.5lf * f * f;
    double tail = s * fma(2.0lf * z, arctanh_series(z), square);
    double low = fma(double(n), LN2_LOWER, tail);
    return fma(double(n), LN2_UPPER, f - (square - low));
}

// The value where x is positive and finite, otherwise what a logarithm of x is.
double logarithm_or_limit(double x, double value) {
    double other = x == 0.0lf ? -INFINITE_DOUBLE : x < 0.0lf ? NAN_DOUBLE : x;
    return x > 0.0lf && x < INFINITE_DOUBLE ? value : other;
}

double precise_log(double x) {
    int n;
    double f = reduce_logarithm(x, n);
    return logarithm_or_limit(x, logarithm(f, n));
}

double precise_log2(double x) {
    int n;
    double f = reduce_logarithm(x, n);
    double value = fma(logarithm(f, 0), 1.44269504088896338700lf, double(n));
    return logarithm_or_limit(x, value);
}

double precise_log10(double x) {
    int n;
    double f = reduce_logarithm(x, n);
    double low = double(n) * 3.69423907715893078616e-13lf;
    low = fma(logarithm(f, 0), 4.34294481903251816668e-01lf, low);
    // The first part of log10(2) has 33 bits.
    double value = fma(double(n), 3.01029995663611771306e-01lf, low);
    return logarithm_or_limit(x, value);
}

double precise_log1p(double x) {
    int n;
    reduce_logarithm(1.0lf + x, n);
    // 1 + x would lose the last bits of x: both are scaled before they are added.
    double scale = n > 120 ? 0.0lf : double_power_of_two(-n);
    double f = times_power_of_two(x, -n) + (scale - 1.0lf);
    double value = logarithm_or_limit(1.0lf + x, logarithm(f, n));
    return x == 0.0lf ? x : value;
}

// What the rounded product x * y lacks of the exact one, below 2^996: drivers may round
// a fused product twice.
// source  Dekker, A Floating-Point Technique for Extending the Available Precision, 1971
double product_error(double x, double y, double product) {
    precise double x_scaled = 134217729.0lf * x, y_scaled = 134217729.0lf * y;
    precise double x_high = x_scaled - (x_scaled - x), x_low = x - x_high;
    precise double y_high = y_scaled - (y_scaled - y), y_low = y - y_high;
    precise double high = (x_high * y_high - product) + x_high * y_low;
    precise double error = (high + x_low * y_high) + x_low * y_low;
    return error;
}

// x^y for finite x > 0, with the logarithm in two parts
double positive_power(double x, double y) {
    int n;
    precise double f = reduce_logarithm(x, n);
    precise double sum = 2.0lf + f;
    precise double sum_low = f - (sum - 2.0lf);
    precise double s = f / sum;
    precise double back = s * sum;
    precise double s_low = ((f - back) - product_error(s, sum, back) - s * sum_low) / sum;
    double z = s * s;
    precise double rest = 2.0lf * fma(s * z, arctanh_series(z), s_low);
    rest = fma(double(n), LN2_LOWER, rest);
    precise double whole = double(n) * LN2_UPPER, twice = 2.0lf * s;
    // |whole| is 0 or above |twice|.
    precise double first = whole + twice;
    precise double first_low = n == 0 ? 0.0lf : twice - (first - whole);
    precise double high = first + (rest + first_low);
    precise double low = (rest + first_low) - (high - first);
    double bounded = clamp(y, -1e30lf, 1e30lf);
    precise double product = bounded * high;
    if (product > 720.0lf) return INFINITE_DOUBLE;
    if (product < -760.0lf) return 0.0lf;
    precise double product_low = product_error(bounded, high, product) + bounded * low;
    double value = precise_exp(product);
    return value < INFINITE_DOUBLE ? fma(value, product_low, value) : value;
}

// Special cases as in C, F.10.4.4
double power(double x, double y) {
    if (y == 2.0lf) return x * x;
    if (y == 0.0lf || x == 1.0lf) return 1.0lf;
    if (x != x || y != y) return NAN_DOUBLE;
    double size = abs(x), half_y = 0.5lf * y;
    bool whole = floor(y) == y;
    bool odd = whole && abs(y) < 9007199254740992.0lf && floor(half_y) != half_y;
    double result = size == 1.0lf ? 1.0lf : positive_power(size, y);
    if (size == 0.0lf || size == INFINITE_DOUBLE)
        result = (size == 0.0lf) == (y > 0.0lf) ? 0.0lf : INFINITE_DOUBLE;
    bool negative = unpackDouble2x32(x).y >> 31 != 0u;
    bool undefined = x < 0.0lf && !whole && size != INFINITE_DOUBLE;
    return undefined ? NAN_DOUBLE : odd && negative ? -result : result;
}

double logistic(double x) {
    double e = precise_exp(-abs(x));
    return (x >= 0.0lf ? 1.0lf : e) / (1.0lf + e);
}

// x / (1 + exp(-z))
double gated(double x, double z) {
    double e = precise_exp(-abs(z));
    return (z >= 0.0lf ? x : x * e) / (1.0lf + e);
}

// x tanh(log(1 + exp(x))), which is x g / (g + 2) with g = exp(x) (exp(x) + 2)
double softly_gated(double x) {
    double e = precise_exp(-abs(x));
    double right = (1.0lf + 2.0lf * e) / (1.0lf + 2.0lf * e * (1.0lf + e));
    double left = (2.0lf + e) / (2.0lf + e * (2.0lf + e));
    return x >= 0.0lf ? x * right : x * e * left;
}

double log1p_exp(double x) {
    return max(x, 0.0lf) + precise_log1p(precise_exp(-abs(x)));
}

double softplus_of(double x, double beta, double threshold) {
    double scaled = beta * x;
    return scaled > threshold ? x : log1p_exp(scaled) / beta;
}

double entropy_term(double x) {
    double value = -x * precise_log(x);
    return x == 0.0lf ? 0.0lf : x < 0.0lf ? -INFINITE_DOUBLE : value;
}

double elu_of(double x, double alpha, double scale, double input_scale) {
    return x > 0.0lf ? scale * x : scale * alpha * precise_expm1(x * input_scale);
}

double log_logistic(double x) {
    return min(x, 0.0lf) - precise_log1p(precise_exp(-abs(x)));
}

double log_add_exp(double x, double y) {
    double apart = x == y ? 0.0lf : abs(x - y);
    double value = max(x, y) + precise_log1p(precise_exp(-apart));
    return x != x || y != y ? NAN_DOUBLE : value;
}

double log_add_exp2(double x, double y) {
    double apart = x == y ? 0.0lf : abs(x - y);
    double part = precise_log1p(precise_exp2(-apart));
    double value = fma(part, 1.44269504088896338700lf, max(x, y));
    return x != x || y != y ? NAN_DOUBLE : value;
}
