// Error functions of float64, and what GELU takes of them
//
// Near 0 and elsewhere by a polynomial each, which interpolates at the nodes of Chebyshev;
// a few ulp.

// exp(-x * x), with what the square loses
double bell(double x) {
    double size = min(abs(x), 40.0lf);
    precise double square = size * size;
    double value = precise_exp(-square);
    return x != x ? x : fma(value, -product_error(size, size, square), value);
}

// erf(x) for 0 <= x < 1: x and a polynomial in x * x, to 2^-62 of it
double error_near_zero(double x) {
    double u = x * x;
    double y = 5.957176147748911e-11lf;
    y = fma(y, u, -1.1372848856791674e-09lf);
    y = fma(y, u, 1.4659775274047436e-08lf);
    y = fma(y, u, -1.6350312701054695e-07lf);
    y = fma(y, u, 1.6461000484121368e-06lf);
    y = fma(y, u, -1.4925595266831182e-05lf);
    y = fma(y, u, 0.0001205533111164271lf);
    y = fma(y, u, -0.000854832698083379lf);
    y = fma(y, u, 0.0052239776248180145lf);
    y = fma(y, u, -0.026866170645076792lf);
    y = fma(y, u, 0.11283791670954879lf);
    y = fma(y, u, -0.3761263890318375lf);
    y = fma(y, u, 0.1283791670955126lf);
    return fma(x, y, x);
}

// exp(x * x) erfc(x) for x >= 1: up to 27.3 that times 1 + 2 x is a polynomial in
// (x - 4) / (x + 4), to 2^-56 of it; above it is the asymptotic expansion.
double large_erfcx(double x) {
    if (x > 27.3lf) {
        double inverse = 1.0lf / x, u = inverse * inverse;
        double y = fma(u, -1055.7421875lf, 162.421875lf);
        y = fma(u, fma(u, fma(u, y, -29.53125lf), 6.5625lf), -1.875lf);
        double series = fma(u, fma(u, y, 0.75lf), -0.5lf);
        return 5.64189583547756279280e-01lf * inverse * fma(u, series, 1.0lf);
    }
    double t = (x - 4.0lf) / (x + 4.0lf);
    double y = 5.199180489620179e-08lf;
    y = fma(y, t, 5.9484082492890283e-08lf);
    y = fma(y, t, -7.472214075626226e-07lf);
    y = fma(y, t, 2.9229642714516895e-07lf);
    y = fma(y, t, 5.657357700978329e-06lf);
    y = fma(y, t, -1.1215123814772896e-05lf);
    y = fma(y, t, -2.4378931830799174e-05lf);
    y = fma(y, t, 0.00015061804878246544lf);
    y = fma(y, t, -0.00019926150757370185lf);
    y = fma(y, t, -0.0007577723694698298lf);
    y = fma(y, t, 0.005031970684116497lf);
    y = fma(y, t, -0.016197734185379474lf);
    y = fma(y, t, 0.037167515475394805lf);
    y = fma(y, t, -0.06633036580263055lf);
    y = fma(y, t, 0.09373283500136378lf);
    y = fma(y, t, -0.10103906603665608lf);
    y = fma(y, t, 0.06809705425462492lf);
    y = fma(y, t, 0.015379652102624599lf);
    y = fma(y, t, -0.13962111684056205lf);
    y = fma(y, t, 1.2329951186255526lf);
    return y / fma(2.0lf, x, 1.0lf);
}

double error_tail(double x) {
    return large_erfcx(min(x, 27.3lf)) * bell(x);
}

double precise_erf(double x) {
    double size = abs(x);
    if (x == 0.0lf || x != x) return x;
    double value = size < 1.0lf ? error_near_zero(size) : 1.0lf - error_tail(size);
    return x < 0.0lf ? -value : value;
}

double precise_erfc(double x) {
    double size = abs(x);
    if (x != x) return x;
    if (size < 1.0lf) return 1.0lf - precise_erf(x);
    double tail = error_tail(size);
    return x < 0.0lf ? 2.0lf - tail : tail;
}

const double ROOT_HALF = 7.07106781186547524401e-01lf;

// x P(x), for the share P of normal draws that are smaller
double normal_gate(double x) {
    return 0.5lf * x * precise_erfc(-x * ROOT_HALF);
}

// Its derivative, P(x) + x P'(x)
double normal_slope(double x) {
    double height = 3.98942280401432677940e-01lf;
    double below = 0.5lf * precise_erfc(-x * ROOT_HALF);
    double bounded = clamp(x, -50.0lf, 50.0lf);
    return fma(bounded * height, bell(x * ROOT_HALF), below);
}

double precise_erfcx(double x) {
    if (x != x) return x;
    if (x >= 1.0lf) return large_erfcx(x);
    if (x < -26.7lf) return INFINITE_DOUBLE;
    precise double square = x * x;
    double value = precise_exp(square) * precise_erfc(x);
    return fma(value, product_error(x, x, square), value);
}

double log_normal_share(double x) {
    double s = x * ROOT_HALF;
    if (x < -1.5lf) return precise_log(0.5lf * large_erfcx(-s)) - 0.5lf * x * x;
    return precise_log1p(-0.5lf * precise_erfc(s));
}
