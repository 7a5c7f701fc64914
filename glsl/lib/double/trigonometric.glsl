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

double sine_quotient(double x) {
    if (abs(x) >= 1.5lf || x != x) return precise_sin(x) / x;
    double u = x * x;
    double y = -3.868170170630684e-23lf;
    y = fma(y, u, 1.9572941063391263e-20lf);
    y = fma(y, u, -8.22063524662433e-18lf);
    y = fma(y, u, 2.8114572543455206e-15lf);
    y = fma(y, u, -7.647163731819816e-13lf);
    y = fma(y, u, 1.6059043836821613e-10lf);
    y = fma(y, u, -2.505210838544172e-08lf);
    y = fma(y, u, 2.7557319223985893e-06lf);
    y = fma(y, u, -0.0001984126984126984lf);
    y = fma(y, u, 0.008333333333333333lf);
    y = fma(y, u, -0.16666666666666666lf);
    y = fma(y, u, 1.0lf);
    return y;
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
