// Hyperbolic functions of float64 and their inverses, by exponentials and logarithms

double with_sign(double value, double x) {
    return x < 0.0lf ? -value : value;
}

double precise_sinh(double x) {
    double size = abs(x), e = precise_expm1(min(size, 700.0lf));
    double value = 0.5lf * (e + e / (e + 1.0lf));
    if (size > 700.0lf) {
        double root = precise_exp(0.5lf * size);
        value = 0.5lf * root * root;
    }
    return x == 0.0lf || x != x ? x : with_sign(value, x);
}

double precise_cosh(double x) {
    double size = abs(x), e = precise_exp(min(size, 700.0lf));
    if (size <= 700.0lf || x != x) return x != x ? x : 0.5lf * (e + 1.0lf / e);
    double root = precise_exp(0.5lf * size);
    return 0.5lf * root * root;
}

double precise_tanh(double x) {
    double e = precise_expm1(2.0lf * min(abs(x), 30.0lf));
    return x == 0.0lf || x != x ? x : with_sign(e / (e + 2.0lf), x);
}

double precise_asinh(double x) {
    double size = abs(x), u = size * size;
    double value = precise_log1p(size + u / (1.0lf + sqrt(1.0lf + u)));
    // Beyond, the square overflows and the 1 does not count.
    if (size > 1e100lf) value = precise_log(size) + 6.93147180559945286227e-01lf;
    return x == 0.0lf || x != x ? x : with_sign(value, x);
}

double precise_acosh(double x) {
    double above = x - 1.0lf;
    double value = precise_log1p(above + sqrt(2.0lf * above + above * above));
    if (x > 1e100lf) value = precise_log(x) + 6.93147180559945286227e-01lf;
    return x >= 1.0lf ? value : NAN_DOUBLE;
}

double precise_atanh(double x) {
    double size = abs(x);
    double value = 0.5lf * precise_log1p(2.0lf * size / (1.0lf - size));
    value = size == 1.0lf ? INFINITE_DOUBLE : size > 1.0lf ? NAN_DOUBLE : value;
    return x == 0.0lf || x != x ? x : with_sign(value, x);
}

double log_of_odds(double x) {
    return precise_log(x / (1.0lf - x));
}
