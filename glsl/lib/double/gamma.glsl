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
    while (q < s + 7.0lf) {
        double term = power(q, -s);
        sum += term;
        q += 1.0lf;
        // The rest is less than its integral.
        if (q > 1.0lf && term * q <= 5.55e-17lf * (s - 1.0lf) * sum) return sum;
    }
    // q^(1 - s) is in range where q^-s may not be.
    double tail = power(q, 1.0lf - s), inverse = 1.0lf / q, term = tail * inverse;
    double y = 5.5090028283602295e-18lf;
    y = fma(y, (s + 19.0lf) * inverse * ((s + 20.0lf) * inverse), -2.174868698558062e-16lf);
    y = fma(y, (s + 17.0lf) * inverse * ((s + 18.0lf) * inverse), 8.586062056277845e-15lf);
    y = fma(y, (s + 15.0lf) * inverse * ((s + 16.0lf) * inverse), -3.3896802963225827e-13lf);
    y = fma(y, (s + 13.0lf) * inverse * ((s + 14.0lf) * inverse), 1.3382536530684679e-11lf);
    y = fma(y, (s + 11.0lf) * inverse * ((s + 12.0lf) * inverse), -5.284190138687493e-10lf);
    y = fma(y, (s + 9.0lf) * inverse * ((s + 10.0lf) * inverse), 2.08767569878681e-08lf);
    y = fma(y, (s + 7.0lf) * inverse * ((s + 8.0lf) * inverse), -8.267195767195768e-07lf);
    y = fma(y, (s + 5.0lf) * inverse * ((s + 6.0lf) * inverse), 3.306878306878307e-05lf);
    y = fma(y, (s + 3.0lf) * inverse * ((s + 4.0lf) * inverse), -0.001388888888888889lf);
    y = fma(y, (s + 1.0lf) * inverse * ((s + 2.0lf) * inverse), 0.08333333333333333lf);
    return sum + (tail / (s - 1.0lf) + term * fma(s * inverse, y, 0.5lf));
}

// log(1 + t) - t for t > -1
double log1p_less(double t) {
    if (abs(t) > 0.5lf) return precise_log1p(t) - t;
    double s = t / (2.0lf + t), z = s * s, tail = 1.0lf / 37.0lf;
    for (uint k = 17u; k > 0u; --k) tail = fma(z, tail, 1.0lf / double(2u * k + 1u));
    return fma(2.0lf * s * z, tail, -t * s);
}

// x^a exp(-x) / gamma(a + 1)
double gamma_density(double a, double x) {
    double exponent = a * log1p_less((x - a) / a) - stirling_tail(a);
    double scale = sqrt(2.0lf * PI_DOUBLE * a);
    if (a < 10.0lf) {
        double y = a + 1.0lf;
        scale = 1.0lf;
        while (y >= 3.0lf) {
            y -= 1.0lf;
            scale *= y;
        }
        exponent = a * precise_log(x) - x - lgamma_near_two(y - 2.0lf);
    }
    return precise_exp(exponent) / scale;
}

// The lower function over the density, by its series
double igamma_series_sum(double a, double x) {
    double term = 1.0lf, sum = 1.0lf;
    for (uint k = 1u; k < MOST_TERMS && term > sum * 5e-17lf; ++k) {
        term *= x / (a + double(k));
        sum += term;
    }
    return sum;
}

// The upper one over the density, by Lentz's continued fraction
double igammac_fraction_value(double a, double x) {
    double b = x + 1.0lf - a, c = 1e300lf, d = 1.0lf / b, h = a * d;
    for (uint k = 1u; k < MOST_TERMS; ++k) {
        double n = double(k), factor = -n * (n - a);
        b += 2.0lf;
        d = 1.0lf / (factor * d + b);
        c = b + factor / c;
        double change = c * d;
        h *= change;
        if (abs(change - 1.0lf) < 4e-16lf) break;
    }
    return h;
}

// Above this order the integrals are nearly those of a bell curve.
const double LARGE_ORDER = 100.0lf;

// Nodes above 0 and weights of Gauss and Legendre's rule of 64 points
const double FINE_NODES[32] = double[](
    0.02435029266342443lf, 0.07299312178779904lf, 0.12146281929612054lf,
    0.16964442042399283lf, 0.21742364374000708lf, 0.2646871622087674lf,
    0.31132287199021097lf, 0.3572201583376681lf, 0.4022701579639916lf,
    0.4463660172534641lf, 0.48940314570705296lf, 0.5312794640198946lf,
    0.571895646202634lf, 0.6111553551723933lf, 0.6489654712546573lf,
    0.6852363130542333lf, 0.7198818501716109lf, 0.7528199072605319lf,
    0.7839723589433414lf, 0.8132653151227975lf, 0.8406292962525803lf,
    0.8659993981540928lf, 0.8893154459951141lf, 0.9105221370785028lf,
    0.9295691721319396lf, 0.9464113748584028lf, 0.9610087996520538lf,
    0.973326827789911lf, 0.983336253884626lf, 0.9910133714767443lf,
    0.9963401167719552lf, 0.9993050417357722lf);
const double FINE_WEIGHTS[32] = double[](
    0.048690957009139814lf, 0.04857546744150351lf, 0.048344762234802996lf,
    0.04799938859645842lf, 0.04754016571483042lf, 0.046968182816210076lf,
    0.04628479658131447lf, 0.045491627927418184lf, 0.044590558163756566lf,
    0.04358372452932355lf, 0.04247351512365361lf, 0.041262563242623576lf,
    0.039953741132720544lf, 0.03855015317861564lf, 0.03705512854024009lf,
    0.0354722132568823lf, 0.033805161837141794lf, 0.032057928354851495lf,
    0.030234657072402554lf, 0.028339672614259535lf, 0.02637746971505491lf,
    0.0243527025687112lf, 0.02227017380838297lf, 0.020134823153530088lf,
    0.017951715775697284lf, 0.01572603047602503lf, 0.01346304789671786lf,
    0.011168139460131028lf, 0.008846759826363397lf, 0.006504457968978502lf,
    0.004147033260564499lf, 0.00178328072169414lf);

// The lower function for x below a + 1, else the upper one, of large orders: the integral
// from x to where the integrand is e^-40 of that at x (Numerical Recipes, 2007, 6.2)
double igamma_quadrature(double a, double x) {
    double top = a - 1.0lf, near = (x - top) / top;
    double away = abs(x - top), room = 80.0lf * top;
    double reach = room / (away + sqrt(away * away + room));
    double end = x < a + 1.0lf ? max(x - reach, 0.0lf) : x + 1.5lf * reach;
    double half_way = 0.5lf * (end - x) / top, tail = stirling_tail(top), sum = 0.0lf;
    for (uint k = 0u; k < 64u; ++k) {
        double node = FINE_NODES[k % 32u], at = k < 32u ? 1.0lf - node : 1.0lf + node;
        double exponent = top * log1p_less(near + half_way * at) - tail;
        sum += FINE_WEIGHTS[k % 32u] * precise_exp(exponent);
    }
    return sum * abs(half_way) * sqrt(top / (2.0lf * PI_DOUBLE));
}

bool igamma_limit(double a, double x, out double lower) {
    lower = NAN_DOUBLE;
    if (!(a >= 0.0lf && x >= 0.0lf)) return true;
    bool is_wide = a == INFINITE_DOUBLE, is_far = x == INFINITE_DOUBLE;
    if (a == 0.0lf) lower = x == 0.0lf ? NAN_DOUBLE : 1.0lf;
    else if (x == 0.0lf || is_wide) lower = is_far ? NAN_DOUBLE : 0.0lf;
    else if (is_far) lower = 1.0lf;
    else return false;
    return true;
}

// The lower function for x below a + 1, else the upper one
double igamma_part(double a, double x) {
    if (a > LARGE_ORDER) return igamma_quadrature(a, x);
    double share = x < a + 1.0lf ? igamma_series_sum(a, x) : igammac_fraction_value(a, x);
    return share * gamma_density(a, x);
}

double precise_igamma(double a, double x) {
    double lower;
    if (igamma_limit(a, x, lower)) return lower;
    double part = igamma_part(a, x);
    return x < a + 1.0lf ? part : 1.0lf - part;
}

double igammac_series(double a, double x) {
    double logarithm = a * (1.0823232337111381lf / 4.0lf) - 1.2020569031595942lf / 3.0lf;
    logarithm = fma(a, fma(a, logarithm, 0.8224670334241132lf), -0.57721566490153286lf);
    logarithm = a < 1e-3lf ? a * logarithm : lgamma_near_two(a - 1.0lf);
    double term = 1.0lf, sum = 0.0lf;
    for (uint n = 1u; n < 30u; ++n) {
        term *= -x / double(n);
        sum += term / (a + double(n));
    }
    double exponent = a * precise_log(x) - logarithm;
    return -precise_expm1(exponent) - a * precise_exp(exponent) * sum;
}

double precise_igammac(double a, double x) {
    double lower;
    if (igamma_limit(a, x, lower)) return 1.0lf - lower;
    if (a < 0.5lf && x < 1.5lf) return igammac_series(a, x);
    double part = igamma_part(a, x);
    return x < a + 1.0lf ? 1.0lf - part : part;
}
