// Inverse of the error function, and quantiles of the normal distribution, of float64
//
// As of float32: polynomials interpolate at the nodes of Chebyshev, to 2^-57.

#include "lib/math/error_function.glsl"

// For w up to 6
double near_quantile_ratio(double w) {
    double t = w - 2.5lf;
    double y = -2.990450243272688e-22lf;
    y = fma(y, t, 7.816859939041636e-21lf);
    y = fma(y, t, -6.326482545817837e-20lf);
    y = fma(y, t, -1.088641576501025e-19lf);
    y = fma(y, t, 4.9216534403445404e-18lf);
    y = fma(y, t, -2.2503033141560768e-17lf);
    y = fma(y, t, -1.3787916713326188e-16lf);
    y = fma(y, t, 1.8585173437064367e-15lf);
    y = fma(y, t, -2.8655719568806576e-15lf);
    y = fma(y, t, -7.591482515647115e-14lf);
    y = fma(y, t, 5.355355339819264e-13lf);
    y = fma(y, t, 9.10800250929146e-13lf);
    y = fma(y, t, -3.1102408421129594e-11lf);
    y = fma(y, t, 1.1960880332170768e-10lf);
    y = fma(y, t, 9.073027452608635e-10lf);
    y = fma(y, t, -1.0861171705233797e-08lf);
    y = fma(y, t, 1.3416805084175235e-08lf);
    y = fma(y, t, 4.7872522110849e-07lf);
    y = fma(y, t, -3.4166195976964613e-06lf);
    y = fma(y, t, -4.996079600198915e-06lf);
    y = fma(y, t, 0.00021825026434455337lf);
    y = fma(y, t, -0.0012527079078107043lf);
    y = fma(y, t, -0.004177317724383707lf);
    y = fma(y, t, 0.24664027674416697lf);
    y = fma(y, t, 1.501409351110792lf);
    return y;
}

// For w from 6 to 17
double middle_quantile_ratio(double w) {
    double t = sqrt(w) - 3.25lf;
    double y = -1.401113391605309e-09lf;
    y = fma(y, t, 7.295442643570847e-09lf);
    y = fma(y, t, -1.1014238829950625e-08lf);
    y = fma(y, t, -1.9819518399044173e-08lf);
    y = fma(y, t, 1.2592272124355152e-07lf);
    y = fma(y, t, -2.468195415674361e-07lf);
    y = fma(y, t, -2.3407760065856815e-08lf);
    y = fma(y, t, 1.4824779254966724e-06lf);
    y = fma(y, t, -3.987636491948011e-06lf);
    y = fma(y, t, 2.9322255015587357e-06lf);
    y = fma(y, t, 1.2465591146086693e-05lf);
    y = fma(y, t, -4.7320593472669765e-05lf);
    y = fma(y, t, 6.828701377348999e-05lf);
    y = fma(y, t, 2.403149982976242e-05lf);
    y = fma(y, t, -0.0003550378022355277lf);
    y = fma(y, t, 0.0009532893426905241lf);
    y = fma(y, t, -0.0016882755361617382lf);
    y = fma(y, t, 0.0024914420979093264lf);
    y = fma(y, t, -0.0037512085082044093lf);
    y = fma(y, t, 0.005370914553555815lf);
    y = fma(y, t, 1.0052589676941652lf);
    y = fma(y, t, 3.0838856104922208lf);
    return y;
}

// y for which -log(erfc(y)) is `fall`, above 17, by Newton's method on
// y^2 - log(erfcx(y)), which is nearly a square
double far_quantile(double fall) {
    double y = sqrt(fall - 0.5lf * precise_log(3.14159265358979311600lf * fall));
    for (uint k = 0u; k < 3u; ++k) {
        double scaled = large_erfcx(y);
        double off = fma(y, y, -precise_log(scaled)) - fall;
        y = fma(off * scaled, -8.86226925452758052283e-01lf, y);
    }
    return y;
}

// For 1 - x^2 = rest (1 + x)
double between_ends(double x, double rest) {
    double size = abs(x);
    double w = -precise_log(rest * (1.0lf + size));
    if (w > 17.0lf) {
        double y = far_quantile(-precise_log(rest));
        return x < 0.0lf ? -y : y;
    }
    return x * (w > 6.0lf ? middle_quantile_ratio(w) : near_quantile_ratio(w));
}

double precise_erfinv(double x) {
    double size = abs(x);
    if (!(size < 1.0lf)) return size == 1.0lf ? x * INFINITE_DOUBLE : NAN_DOUBLE;
    return between_ends(x, 1.0lf - size);
}

double normal_quantile(double p) {
    double x = fma(2.0lf, p, -1.0lf);
    if (!(p > 0.0lf && p < 1.0lf)) return p == 0.0lf || p == 1.0lf ? x * INFINITE_DOUBLE : NAN_DOUBLE;
    return 1.41421356237309514547lf * between_ends(x, 2.0lf * min(p, 1.0lf - p));
}
