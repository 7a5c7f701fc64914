// Circular functions of float64 and their inverses
//
// Angles are reduced by pi / 2 in three parts, which serves up to 2^50; beyond, results
// are within [-1, 1] and mean nothing. Series of Taylor; errors are a few ulp.

const double HALF_PI_FIRST = 1.57079632679489655800e+00lf;
const double HALF_PI_SECOND = 6.12323399573676603587e-17lf;
const double HALF_PI_THIRD = -1.49738490485916983000e-33lf;

// x = quarter * pi / 2 + rest; the rest, at most pi / 4, is returned.
double reduce_angle(double x, out uint quarter) {
    double n = roundEven(x * 6.36619772367581382433e-01lf);
    precise double first = n * HALF_PI_FIRST, second = n * HALF_PI_SECOND;
    precise double rest = x - first;
    precise double first_low = product_error(n, HALF_PI_FIRST, first);
    precise double near = rest - first_low;
    precise double lost = (rest - near) - first_low;
    precise double sum = near - second;
    lost += ((near - sum) - second) - product_error(n, HALF_PI_SECOND, second);
    rest = sum + (lost - n * HALF_PI_THIRD);
    quarter = uint(int(n - 4.0lf * floor(0.25lf * n)));
    return clamp(rest, -0.8lf, 0.8lf);
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
    double value =
        (quarter & 1u) == 0u ? sine_near_zero(rest) : cosine_near_zero(rest);
    value = (quarter & 2u) == 0u ? value : -value;
    return abs(x) < INFINITE_DOUBLE ? value : NAN_DOUBLE;
}

double precise_sin(double x) {
    return x == 0.0lf ? x : shifted_sine(x, 0u);
}

double precise_cos(double x) {
    return shifted_sine(x, 1u);
}

double precise_tan(double x) {
    uint quarter;
    double rest = reduce_angle(x, quarter);
    double sine = sine_near_zero(rest), cosine = cosine_near_zero(rest);
    double value = (quarter & 1u) == 0u ? sine / cosine : -cosine / sine;
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

double precise_asin(double x) {
    double value = precise_atan2(x, sqrt((1.0lf - x) * (1.0lf + x)));
    return x == 0.0lf ? x : abs(x) <= 1.0lf ? value : NAN_DOUBLE;
}

double precise_acos(double x) {
    double value = 2.0lf * precise_atan2(sqrt(1.0lf - x), sqrt(1.0lf + x));
    return abs(x) <= 1.0lf ? value : NAN_DOUBLE;
}
