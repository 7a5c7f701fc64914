// Modified Bessel functions of the first kind, of order 0 and 1, of float64
//
// Up to 25 by their series, of positive terms alone; above by the asymptotic expansion,
// whose smallest term is e^-50 there.

double scaled_bessel(double x, uint order) {
    if (x != x) return x;
    double size = abs(x), sum = 1.0lf, term = 1.0lf;
    if (size <= 25.0lf) {
        double quarter = 0.25lf * size * size;
        for (uint k = 1u; k < 90u; ++k) {
            term *= quarter / double(k * (k + order));
            sum += term;
            if (term < sum * 5e-17lf) break;
        }
        sum *= precise_exp(-size) * (order == 1u ? 0.5lf * size : 1.0lf);
    } else {
        double inverse = 1.0lf / size, fourth = order == 1u ? 4.0lf : 0.0lf;
        for (uint k = 1u; k < 24u; ++k) {
            double odd = double(2u * k - 1u);
            term *= (odd * odd - fourth) * inverse / double(8u * k);
            sum += term;
        }
        sum /= sqrt(2.0lf * 3.14159265358979311600lf * size);
    }
    return order == 1u && x < 0.0lf ? -sum : sum;
}

double precise_i0e(double x) {
    return scaled_bessel(x, 0u);
}

double precise_i1e(double x) {
    return scaled_bessel(x, 1u);
}

// exp(|x|) may be out of range where the product is not: it is taken in halves.
double unscaled_bessel(double x, uint order) {
    double root = precise_exp(0.5lf * abs(x));
    return scaled_bessel(x, order) * root * root;
}

double precise_i0(double x) {
    return abs(x) == INFINITE_DOUBLE ? INFINITE_DOUBLE : unscaled_bessel(x, 0u);
}

double precise_i1(double x) {
    return abs(x) == INFINITE_DOUBLE ? x : unscaled_bessel(x, 1u);
}
