// Gamma function of float64: its logarithm and derivatives, as of float32; a few ulp

const double HALF_LOG_TWO_PI_DOUBLE = 9.18938533204672741780e-01lf;
const double PI_DOUBLE = 3.14159265358979311600e+00lf;

// log(gamma(2 + t)) for -1 <= t <= 1, to 2^-57 of it
double lgamma_near_two(double t) {
    double y = 1.0669069443730467e-10lf;
    y = fma(y, t, -2.1929033871615188e-10lf);
    y = fma(y, t, -3.757748036671072e-10lf);
    y = fma(y, t, 7.708683039254055e-10lf);
    y = fma(y, t, 1.311580769368583e-09lf);
    y = fma(y, t, -2.6977201552657587e-09lf);
    y = fma(y, t, -4.928665205470492e-10lf);
    y = fma(y, t, 9.849156305952999e-10lf);
    y = fma(y, t, 6.4340474171170495e-09lf);
    y = fma(y, t, -1.3356469556165446e-08lf);
    y = fma(y, t, 1.9598224545887634e-08lf);
    y = fma(y, t, -4.1039410908133404e-08lf);
    y = fma(y, t, 9.184727299586606e-08lf);
    y = fma(y, t, -1.9294644382653655e-07lf);
    y = fma(y, t, 4.034779932322155e-07lf);
    y = fma(y, t, -8.524724847142307e-07lf);
    y = fma(y, t, 1.8081707112591225e-06lf);
    y = fma(y, t, -3.847454638539412e-06lf);
    y = fma(y, t, 8.222176284085957e-06lf);
    y = fma(y, t, -1.7661651717757542e-05lf);
    y = fma(y, t, 3.81688910777123e-05lf);
    y = fma(y, t, -8.30951294385275e-05lf);
    y = fma(y, t, 0.00018255263893318132lf);
    y = fma(y, t, -0.000405707397257618lf);
    y = fma(y, t, 0.0009153769222580459lf);
    y = fma(y, t, -0.0021081308339671347lf);
    y = fma(y, t, 0.004998641164697176lf);
    y = fma(y, t, -0.012384192193371038lf);
    y = fma(y, t, 0.03296500062115583lf);
    y = fma(y, t, -0.10031730167435392lf);
    y = fma(y, t, 0.42278433509846713lf);
    return t * (1.0lf + t) * y;
}

// log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x >= 10; error 2^-54 of it
double stirling_tail(double x) {
    double inverse = 1.0lf / x, u = inverse * inverse;
    double y = -691.0lf / 360360.0lf;
    y = fma(y, u, 1.0lf / 1188.0lf);
    y = fma(y, u, -1.0lf / 1680.0lf);
    y = fma(y, u, 1.0lf / 1260.0lf);
    y = fma(y, u, -1.0lf / 360.0lf);
    return inverse * fma(y, u, 1.0lf / 12.0lf);
}

double positive_lgamma(double x) {
    if (x < 1.0lf) return lgamma_near_two(x - 1.0lf) - precise_log(x);
    if (x >= 10.0lf) {
        double main = (x - 0.5lf) * (precise_log(x) - 1.0lf);
        return main + (HALF_LOG_TWO_PI_DOUBLE - 0.5lf) + stirling_tail(x);
    }
    double product = 1.0lf;
    while (x >= 3.0lf) {
        x -= 1.0lf;
        product *= x;
    }
    double rest = lgamma_near_two(x - 2.0lf);
    return product == 1.0lf ? rest : rest + precise_log(product);
}

double sine_of_half_turns(double x) {
    double near = x - 2.0lf * floor(0.5lf * x + 0.5lf);
    double size = abs(near), folded = size > 0.5lf ? 1.0lf - size : size;
    return precise_sin(PI_DOUBLE * (near < 0.0lf ? -folded : folded));
}

double precise_lgamma(double x) {
    if (x != x) return x;
    if (abs(x) == INFINITE_DOUBLE) return INFINITE_DOUBLE;
    if (x > 0.0lf) return positive_lgamma(x);
    if (floor(x) == x) return INFINITE_DOUBLE;
    double sine = abs(sine_of_half_turns(x));
    return precise_log(PI_DOUBLE / (sine * -x)) - positive_lgamma(-x);
}

double precise_digamma(double x) {
    if (x == 0.0lf) return unpackDouble2x32(x).y >> 31 != 0u ? INFINITE_DOUBLE : -INFINITE_DOUBLE;
    double shift = 0.0lf;
    if (x < 0.0lf) {
        if (floor(x) == x) return NAN_DOUBLE;
        double near = x - floor(x + 0.5lf);
        shift = -PI_DOUBLE / precise_tan(PI_DOUBLE * near);
        x = 1.0lf - x;
    }
    while (x < 10.0lf) {
        shift -= 1.0lf / x;
        x += 1.0lf;
    }
    double u = 1.0lf / (x * x);
    double y = 1.0lf / 12.0lf;
    y = fma(y, u, -691.0lf / 32760.0lf);
    y = fma(y, u, 1.0lf / 132.0lf);
    y = fma(y, u, -1.0lf / 240.0lf);
    y = fma(y, u, 1.0lf / 252.0lf);
    y = fma(y, u, -1.0lf / 120.0lf);
    y = fma(y, u, 1.0lf / 12.0lf);
    return shift + (precise_log(x) - 0.5lf / x - u * y);
}

double precise_trigamma(double x) {
    double sign = 1.0lf, shift = 0.0lf;
    if (x < 0.0lf) {
        double sine = precise_sin(PI_DOUBLE * (x - floor(x + 0.5lf)));
        shift = PI_DOUBLE * PI_DOUBLE / (sine * sine);
        sign = -1.0lf;
        x = 1.0lf - x;
    }
    double sum = 0.0lf;
    while (x < 10.0lf) {
        sum += 1.0lf / (x * x);
        x += 1.0lf;
    }
    double u = 1.0lf / (x * x);
    double y = 7.0lf / 6.0lf;
    y = fma(y, u, -691.0lf / 2730.0lf);
    y = fma(y, u, 5.0lf / 66.0lf);
    y = fma(y, u, -1.0lf / 30.0lf);
    y = fma(y, u, 1.0lf / 42.0lf);
    y = fma(y, u, -1.0lf / 30.0lf);
    y = fma(y, u, 1.0lf / 6.0lf);
    sum += 1.0lf / x + u * (0.5lf + y / x);
    return shift + sign * sum;
}

double hurwitz_zeta(double s, double q) {
    if (s == 1.0lf) return INFINITE_DOUBLE;
    if (!(s > 1.0lf)) return NAN_DOUBLE;
    if (q <= 0.0lf) {
        if (floor(q) == q) return INFINITE_DOUBLE;
        if (floor(s) != s || q < -4096.0lf) return NAN_DOUBLE;
    }
    double sum = 0.0lf;
    while (q < 16.0lf) {
        sum += power(q, -s);
        q += 1.0lf;
    }
    // q^(1 - s) is in range where q^-s may not be.
    double tail = power(q, 1.0lf - s), term = tail / q;
    double inverse = 1.0lf / q, u = inverse * inverse;
    sum += tail / (s - 1.0lf) + 0.5lf * term;
    double factor = s * term * inverse;
    sum += factor / 12.0lf;
    factor *= (s + 1.0lf) * (s + 2.0lf) * u;
    sum -= factor / 720.0lf;
    factor *= (s + 3.0lf) * (s + 4.0lf) * u;
    sum += factor / 30240.0lf;
    factor *= (s + 5.0lf) * (s + 6.0lf) * u;
    sum -= factor / 1209600.0lf;
    factor *= (s + 7.0lf) * (s + 8.0lf) * u;
    return sum + factor / 47900160.0lf;
}
