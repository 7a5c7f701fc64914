// Modified Bessel functions of the first kind, of order 0 and 1, of float64
//
// Up to 8 by their series, of positive terms alone; above by a polynomial in 1 / x, which
// interpolates at the nodes of Chebyshev, to 2^-56.

// I(x) of order 0 for |x| <= 8
double near_i0(double x) {
    double u = 0.25lf * x * x;
    double y = 3.8310002187098785e-40lf;
    y = fma(y, u, 1.6894710964510564e-37lf);
    y = fma(y, u, 6.757884385804225e-35lf);
    y = fma(y, u, 2.4395962632753253e-32lf);
    y = fma(y, u, 7.904291893012054e-30lf);
    y = fma(y, u, 2.2843403570804838e-27lf);
    y = fma(y, u, 5.8479113141260385e-25lf);
    y = fma(y, u, 1.3157800456783586e-22lf);
    y = fma(y, u, 2.5789288895295828e-20lf);
    y = fma(y, u, 4.358389823304995e-18lf);
    y = fma(y, u, 6.276081345559193e-16lf);
    y = fma(y, u, 7.594058428126623e-14lf);
    y = fma(y, u, 7.594058428126624e-12lf);
    y = fma(y, u, 6.151187326782565e-10lf);
    y = fma(y, u, 3.936759889140842e-08lf);
    y = fma(y, u, 1.9290123456790124e-06lf);
    y = fma(y, u, 6.944444444444444e-05lf);
    y = fma(y, u, 0.001736111111111111lf);
    y = fma(y, u, 0.027777777777777776lf);
    y = fma(y, u, 0.25lf);
    y = fma(y, u, 1.0lf);
    y = fma(y, u, 1.0lf);
    return y;
}

// I(x) of order 1 for |x| <= 8
double near_i1(double x) {
    double u = 0.25lf * x * x;
    double y = 1.7413637357772174e-41lf;
    y = fma(y, u, 8.045100459290744e-39lf);
    y = fma(y, u, 3.3789421929021126e-36lf);
    y = fma(y, u, 1.2839980333028028e-33lf);
    y = fma(y, u, 4.391273273895586e-31lf);
    y = fma(y, u, 1.3437296218120491e-28lf);
    y = fma(y, u, 3.654944571328774e-26lf);
    y = fma(y, u, 8.771866971189057e-24lf);
    y = fma(y, u, 1.842092063949702e-21lf);
    y = fma(y, u, 3.352607556388458e-19lf);
    y = fma(y, u, 5.230067787965994e-17lf);
    y = fma(y, u, 6.903689480115112e-15lf);
    y = fma(y, u, 7.594058428126623e-13lf);
    y = fma(y, u, 6.834652585313961e-11lf);
    y = fma(y, u, 4.920949861426052e-09lf);
    y = fma(y, u, 2.755731922398589e-07lf);
    y = fma(y, u, 1.1574074074074073e-05lf);
    y = fma(y, u, 0.00034722222222222224lf);
    y = fma(y, u, 0.006944444444444444lf);
    y = fma(y, u, 0.08333333333333333lf);
    y = fma(y, u, 0.5lf);
    y = fma(y, u, 1.0lf);
    return 0.5lf * x * y;
}

// exp(-x) sqrt(x) I(x) of order 0 for x >= 8, in t = 16 / x - 1
double far_i0(double t) {
    double y = -7.06893851181878e-11lf;
    y = fma(y, t, -1.9216763724933513e-11lf);
    y = fma(y, t, 5.181936971288284e-10lf);
    y = fma(y, t, 1.4672236659214398e-10lf);
    y = fma(y, t, -1.7789375042917173e-09lf);
    y = fma(y, t, -5.562201990080394e-10lf);
    y = fma(y, t, 3.881151253996067e-09lf);
    y = fma(y, t, 1.497880830187091e-09lf);
    y = fma(y, t, -6.188265090497361e-09lf);
    y = fma(y, t, -3.4857887470034955e-09lf);
    y = fma(y, t, 7.58022133915272e-09lf);
    y = fma(y, t, 7.540601378890834e-09lf);
    y = fma(y, t, -5.4685974495866e-09lf);
    y = fma(y, t, -1.3404241991980871e-08lf);
    y = fma(y, t, -6.729724111923548e-09lf);
    y = fma(y, t, 7.553516470355896e-09lf);
    y = fma(y, t, 2.1545177650836005e-08lf);
    y = fma(y, t, 3.932602459703109e-08lf);
    y = fma(y, t, 8.87225351128584e-08lf);
    y = fma(y, t, 2.973598432479169e-07lf);
    y = fma(y, t, 1.4838475473607391e-06lf);
    y = fma(y, t, 1.1143033791556743e-05lf);
    y = fma(y, t, 0.00013621607439232746lf);
    y = fma(y, t, 0.003360551983667854lf);
    y = fma(y, t, 0.4021765094450081lf);
    return y;
}

// The same of order 1
double far_i1(double t) {
    double y = 7.347992441734663e-11lf;
    y = fma(y, t, 1.7502497778701306e-11lf);
    y = fma(y, t, -5.388285995923524e-10lf);
    y = fma(y, t, -1.342266320082222e-10lf);
    y = fma(y, t, 1.8513716745511988e-09lf);
    y = fma(y, t, 5.146498826087142e-10lf);
    y = fma(y, t, -4.047785403711858e-09lf);
    y = fma(y, t, -1.4171698018664596e-09lf);
    y = fma(y, t, 6.4870195719816896e-09lf);
    y = fma(y, t, 3.406636130196794e-09lf);
    y = fma(y, t, -8.044231276166508e-09lf);
    y = fma(y, t, -7.630751970065577e-09lf);
    y = fma(y, t, 6.040877342160988e-09lf);
    y = fma(y, t, 1.4029693589852716e-08lf);
    y = fma(y, t, 6.715795128085017e-09lf);
    y = fma(y, t, -8.426622829598154e-09lf);
    y = fma(y, t, -2.337059627111857e-08lf);
    y = fma(y, t, -4.312935369971356e-08lf);
    y = fma(y, t, -1.0001323461066435e-07lf);
    y = fma(y, t, -3.483855609009937e-07lf);
    y = fma(y, t, -1.8349101134666435e-06lf);
    y = fma(y, t, -1.5038547201176271e-05lf);
    y = fma(y, t, -0.00021923576383430274lf);
    y = fma(y, t, -0.009749577193235728lf);
    y = fma(y, t, 0.38939845902587233lf);
    return y;
}

double precise_i0e(double x) {
    double size = abs(x);
    if (size <= 8.0lf) return near_i0(x) * precise_exp(-size);
    return x != x ? x : far_i0(16.0lf / size - 1.0lf) / sqrt(size);
}

double precise_i1e(double x) {
    double size = abs(x);
    if (size <= 8.0lf) return near_i1(x) * precise_exp(-size);
    double value = far_i1(16.0lf / size - 1.0lf) / sqrt(size);
    return x != x ? x : x < 0.0lf ? -value : value;
}

// exp(x) may be out of range where the product is not: it is taken in halves.
double with_exponential(double value, double size) {
    double root = precise_exp(0.5lf * size);
    return size == INFINITE_DOUBLE ? INFINITE_DOUBLE : value * root * root;
}

double precise_i0(double x) {
    return abs(x) <= 8.0lf ? near_i0(x) : with_exponential(precise_i0e(x), abs(x));
}

double precise_i1(double x) {
    if (abs(x) <= 8.0lf) return near_i1(x);
    double value = with_exponential(precise_i1e(abs(x)), abs(x));
    return x < 0.0lf ? -value : value;
}
