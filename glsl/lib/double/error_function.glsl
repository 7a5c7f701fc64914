// Error functions of float64, and what GELU takes of them
//
// Near 0 by a series of positive terms, elsewhere by a continued fraction; a few ulp.
// source  Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.6 and 7.1.14

const double TWO_OVER_ROOT_PI = 1.12837916709551255856lf;

// exp(-x * x), with what the square loses
double bell(double x) {
    double size = min(abs(x), 40.0lf);
    precise double square = size * size;
    double value = precise_exp(-square);
    return x != x ? x : fma(value, -product_error(size, size, square), value);
}

// erf(x) for 0 <= x < 1
double error_series(double x) {
    double term = x, total = x;
    for (int n = 1; n < 32; n++) {
        term *= 2.0lf * x * x / double(2 * n + 1);
        total += term;
    }
    return TWO_OVER_ROOT_PI * bell(x) * total;
}

// erfc(x) for x >= 1
double error_tail(double x) {
    double y = x;
    for (int n = x < 2.0lf ? 260 : 100; n > 0; n--) y = x + 0.5lf * double(n) / y;
    return 0.5lf * TWO_OVER_ROOT_PI * bell(x) / y;
}

double precise_erf(double x) {
    double size = abs(x);
    if (x == 0.0lf || x != x) return x;
    double value = size < 1.0lf ? error_series(size) : 1.0lf - error_tail(size);
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
