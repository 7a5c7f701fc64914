// Bessel functions J, Y and K of order 0 and 1, and Airy's function, of float64
//
// As of float32: the polynomials are right to 2^-50 of the largest value.

const double BESSEL_BORDER_DOUBLE = 8.0lf;

// J in v, for x up to BESSEL_BORDER_DOUBLE; of order 1 over x
double near_j0(double v) {
    double y = -6.5151500571157116e-18lf;
    y = fma(y, v, 2.8780700417086955e-16lf);
    y = fma(y, v, -1.1351277410243094e-14lf);
    y = fma(y, v, 3.990811966391986e-13lf);
    y = fma(y, v, -1.2384699153073492e-11lf);
    y = fma(y, v, 3.3634718625333373e-10lf);
    y = fma(y, v, -7.915407670549364e-09lf);
    y = fma(y, v, 1.5956108859013866e-07lf);
    y = fma(y, v, -2.7177491450676137e-06lf);
    y = fma(y, v, 3.847319785739127e-05lf);
    y = fma(y, v, -0.0004435459224727048lf);
    y = fma(y, v, 0.00405807898914049lf);
    y = fma(y, v, -0.028472718610869578lf);
    y = fma(y, v, 0.14598884856759273lf);
    y = fma(y, v, -0.507468045847102lf);
    y = fma(y, v, 1.0383794611437211lf);
    y = fma(y, v, -0.808088807669687lf);
    y = fma(y, v, -0.6484692830871837lf);
    y = fma(y, v, 0.9303012472958572lf);
    y = fma(y, v, 0.04582966485981377lf);
    return y;
}

double near_j1(double v) {
    double y = -1.660698366324882e-19lf;
    y = fma(y, v, 7.738273635981454e-18lf);
    y = fma(y, v, -3.230355718639617e-16lf);
    y = fma(y, v, 1.2060725733399566e-14lf);
    y = fma(y, v, -3.9908260820706373e-13lf);
    y = fma(y, v, 1.1610655467503379e-11lf);
    y = fma(y, v, -2.943037865185982e-10lf);
    y = fma(y, v, 6.43126873231046e-09lf);
    y = fma(y, v, -1.1967081644348947e-07lf);
    y = fma(y, v, 1.8684525372339904e-06lf);
    y = fma(y, v, -2.4045748660869218e-05lf);
    y = fma(y, v, 0.0002494945813908964lf);
    y = fma(y, v, -0.0020290394945702453lf);
    y = fma(y, v, 0.01245681439225544lf);
    y = fma(y, v, -0.054745818212847276lf);
    y = fma(y, v, 0.15858376432721938lf);
    y = fma(y, v, -0.2595948652859303lf);
    y = fma(y, v, 0.15151665143806634lf);
    y = fma(y, v, 0.08105866038589796lf);
    y = fma(y, v, -0.05814382795599107lf);
    return y;
}

// Y less 2 / pi log(x) J, and of order 1 plus 2 / (pi x), over x
double near_y0(double v) {
    double y = 1.5111118382094027e-17lf;
    y = fma(y, v, -6.574806994171116e-16lf);
    y = fma(y, v, 2.550861655159015e-14lf);
    y = fma(y, v, -8.81052546459933e-13lf);
    y = fma(y, v, 2.681836493410209e-11lf);
    y = fma(y, v, -7.130516940301903e-10lf);
    y = fma(y, v, 1.6391065111246523e-08lf);
    y = fma(y, v, -3.2185077885022706e-07lf);
    y = fma(y, v, 5.321318633837175e-06lf);
    y = fma(y, v, -7.279541882784653e-05lf);
    y = fma(y, v, 0.0008061586060550243lf);
    y = fma(y, v, -0.0070257410572698254lf);
    y = fma(y, v, 0.046367047681347105lf);
    y = fma(y, v, -0.2189574709617165lf);
    y = fma(y, v, 0.6721770783431723lf);
    y = fma(y, v, -1.0775477338215995lf);
    y = fma(y, v, 0.14412632369302442lf);
    y = fma(y, v, 1.6470964788745466lf);
    y = fma(y, v, -0.8284358903604587lf);
    y = fma(y, v, -0.382250654459425lf);
    return y;
}

double near_y1(double v) {
    double y = 3.879779789058402e-19lf;
    y = fma(y, v, -1.7815800257405252e-17lf);
    y = fma(y, v, 7.320632021158841e-16lf);
    y = fma(y, v, -2.6871218482682002e-14lf);
    y = fma(y, v, 8.728846992741433e-13lf);
    y = fma(y, v, -2.48876602241918e-11lf);
    y = fma(y, v, 6.16974257301963e-10lf);
    y = fma(y, v, -1.31533223991362e-08lf);
    y = fma(y, v, 2.3804929913922317e-07lf);
    y = fma(y, v, -3.6009998744473813e-06lf);
    y = fma(y, v, 4.46743301291431e-05lf);
    y = fma(y, v, -0.00044381734351146775lf);
    y = fma(y, v, 0.003422490739918046lf);
    y = fma(y, v, -0.01962875683309943lf);
    y = fma(y, v, 0.07854786922242545lf);
    y = fma(y, v, -0.19639839859930425lf);
    y = fma(y, v, 0.23507209206669755lf);
    y = fma(y, v, 0.023367571720993584lf);
    y = fma(y, v, -0.24337743079193114lf);
    y = fma(y, v, 0.07075985882118005lf);
    return y;
}

// P and Q / t (DLMF 10.17.1) in the square of t, which is BESSEL_BORDER_DOUBLE / x
double far_p0(double u) {
    double y = 1.3219700423350835e-10lf;
    y = fma(y, u, -1.0029066979633945e-09lf);
    y = fma(y, u, 3.589369421372812e-09lf);
    y = fma(y, u, -8.31251965044764e-09lf);
    y = fma(y, u, 1.4845549354895297e-08lf);
    y = fma(y, u, -2.4185615179408813e-08lf);
    y = fma(y, u, 4.339314718568921e-08lf);
    y = fma(y, u, -1.0229475399421496e-07lf);
    y = fma(y, u, 3.620184781129259e-07lf);
    y = fma(y, u, -2.183917728558513e-06lf);
    y = fma(y, u, 2.738088361130017e-05lf);
    y = fma(y, u, -0.0010986328124985556lf);
    y = fma(y, u, 1.0lf);
    return y;
}

double far_q0(double u) {
    double y = -1.3477937580357612e-10lf;
    y = fma(y, u, 1.011031238186147e-09lf);
    y = fma(y, u, -3.555524278992273e-09lf);
    y = fma(y, u, 8.000995612956512e-09lf);
    y = fma(y, u, -1.3609419519258223e-08lf);
    y = fma(y, u, 2.0428537127580895e-08lf);
    y = fma(y, u, -3.228985891642277e-08lf);
    y = fma(y, u, 6.399781418673288e-08lf);
    y = fma(y, u, -1.8162398074592788e-07lf);
    y = fma(y, u, 8.238425985656106e-07lf);
    y = fma(y, u, -6.9307860941428686e-06lf);
    y = fma(y, u, 0.00014305114745934768lf);
    y = fma(y, u, -0.015624999999999995lf);
    return y;
}

double far_p1(double u) {
    double y = -1.4038395089577798e-10lf;
    y = fma(y, u, 1.0657770307911482e-09lf);
    y = fma(y, u, -3.818735305533677e-09lf);
    y = fma(y, u, 8.860855361799285e-09lf);
    y = fma(y, u, -1.5879522872690333e-08lf);
    y = fma(y, u, 2.6030250382020736e-08lf);
    y = fma(y, u, -4.719167778074151e-08lf);
    y = fma(y, u, 1.1307073738668152e-07lf);
    y = fma(y, u, -4.102893385438351e-07lf);
    y = fma(y, u, 2.5809939131965017e-06lf);
    y = fma(y, u, -3.520399323335166e-05lf);
    y = fma(y, u, 0.001831054687498473lf);
    y = fma(y, u, 1.0lf);
    return y;
}

double far_q1(double u) {
    double y = 1.4280722112309597e-10lf;
    y = fma(y, u, -1.071914270433146e-09lf);
    y = fma(y, u, 3.773309315230924e-09lf);
    y = fma(y, u, -8.504914198988601e-09lf);
    y = fma(y, u, 1.4507979244604333e-08lf);
    y = fma(y, u, -2.1888377038312212e-08lf);
    y = fma(y, u, 3.489697880824557e-08lf);
    y = fma(y, u, -7.010042468690825e-08lf);
    y = fma(y, u, 2.0299308556246271e-07lf);
    y = fma(y, u, -9.5058781859599e-07lf);
    y = fma(y, u, 8.470960796899506e-06lf);
    y = fma(y, u, -0.00020027160644363478lf);
    y = fma(y, u, 0.04687499999999999lf);
    return y;
}

// I in v, for x up to 2; of order 1 over x
double near_i0(double v) {
    double y = 7.760584616046307e-17lf;
    y = fma(y, v, 1.5591722255307018e-14lf);
    y = fma(y, v, 2.539685182415718e-12lf);
    y = fma(y, v, 3.2732478435364746e-10lf);
    y = fma(y, v, 3.236227369352817e-08lf);
    y = fma(y, v, 2.3575789878938216e-06lf);
    y = fma(y, v, 0.00011982068581628347lf);
    y = fma(y, v, 0.0039285651056368085lf);
    y = fma(y, v, 0.07358986836105336lf);
    y = fma(y, v, 0.6358617281560686lf);
    y = fma(y, v, 1.5660829297563506lf);
    return y;
}

double near_i1(double v) {
    double y = 3.514248185022958e-18lf;
    y = fma(y, v, 7.760645432486339e-16lf);
    y = fma(y, v, 1.403175932438328e-13lf);
    y = fma(y, v, 2.031748144716246e-11lf);
    y = fma(y, v, 2.2912734966254588e-09lf);
    y = fma(y, v, 1.9417364216117698e-07lf);
    y = fma(y, v, 1.1787894939467186e-05lf);
    y = fma(y, v, 0.0004792827432651339lf);
    y = fma(y, v, 0.011785695316910426lf);
    y = fma(y, v, 0.1471797367221067lf);
    y = fma(y, v, 0.6358617281560686lf);
    return y;
}

// K plus log(x) I, and of order 1 less log(x) I and 1 / x, over x
double near_k0(double v) {
    double y = 2.3662147662312846e-16lf;
    y = fma(y, v, 4.599367347935576e-14lf);
    y = fma(y, v, 7.212483213466006e-12lf);
    y = fma(y, v, 8.891855786815693e-10lf);
    y = fma(y, v, 8.336543810883835e-08lf);
    y = fma(y, v, 5.6886558483558625e-06lf);
    y = fma(y, v, 0.0002658589288253285lf);
    y = fma(y, v, 0.00777646646981443lf);
    y = fma(y, v, 0.12278562011464678lf);
    y = fma(y, v, 0.7812430851107339lf);
    y = fma(y, v, 0.7819051943679178lf);
    return y;
}

double near_k1(double v) {
    double y = -1.0872988148265948e-17lf;
    y = fma(y, v, -2.3275906252642427e-15lf);
    y = fma(y, v, -4.061614593078465e-13lf);
    y = fma(y, v, -5.643777985695717e-11lf);
    y = fma(y, v, -6.061898763274258e-09lf);
    y = fma(y, v, -4.841738921130948e-07lf);
    y = fma(y, v, -2.7280508484366524e-05lf);
    y = fma(y, v, -0.001004688143150579lf);
    y = fma(y, v, -0.02142386442877562lf);
    y = fma(y, v, -0.21068184102943455lf);
    y = fma(y, v, -0.49820162023255865lf);
    return y;
}

// exp(x) sqrt(x) K in 2 / x, for x from 2 on
double far_k0(double t) {
    double y = -0.0008665272685695087lf;
    y = fma(y, t, 0.011568237282788487lf);
    y = fma(y, t, -0.0730542374253016lf);
    y = fma(y, t, 0.29039521815193753lf);
    y = fma(y, t, -0.815800528053335lf);
    y = fma(y, t, 1.7243120604500508lf);
    y = fma(y, t, -2.85130516931111lf);
    y = fma(y, t, 3.788593686072411lf);
    y = fma(y, t, -4.125893743756307lf);
    y = fma(y, t, 3.7421004837939202lf);
    y = fma(y, t, -2.8679507250680025lf);
    y = fma(y, t, 1.8857222331287893lf);
    y = fma(y, t, -1.0834245782066698lf);
    y = fma(y, t, 0.5574524387874558lf);
    y = fma(y, t, -0.2657708018595322lf);
    y = fma(y, t, 0.12284437660668006lf);
    y = fma(y, t, -0.05805991386331242lf);
    y = fma(y, t, 0.02955705801581909lf);
    y = fma(y, t, -0.016901378158401963lf);
    y = fma(y, t, 0.01121027726107837lf);
    y = fma(y, t, -0.008894877497924709lf);
    y = fma(y, t, 0.00878511162706804lf);
    y = fma(y, t, -0.011474433597251343lf);
    y = fma(y, t, 0.022030912569639044lf);
    y = fma(y, t, -0.07833213358221719lf);
    y = fma(y, t, 1.2533141373155003lf);
    return y;
}

double far_k1(double t) {
    double y = 0.0009393799153707247lf;
    y = fma(y, t, -0.012542400300645655lf);
    y = fma(y, t, 0.07921788728804038lf);
    y = fma(y, t, -0.31495195628216277lf);
    y = fma(y, t, 0.8849773321882561lf);
    y = fma(y, t, -1.8710215501798513lf);
    y = fma(y, t, 3.0949251734068595lf);
    y = fma(y, t, -4.114030245159136lf);
    y = fma(y, t, 4.482765019904761lf);
    y = fma(y, t, -4.068758783462781lf);
    y = fma(y, t, 3.1214431089125365lf);
    y = fma(y, t, -2.0553177563194254lf);
    y = fma(y, t, 1.1833038866182064lf);
    y = fma(y, t, -0.6107096199453073lf);
    y = fma(y, t, 0.29249737720957375lf);
    y = fma(y, t, -0.1361149023166516lf);
    y = fma(y, t, 0.06495590765203732lf);
    y = fma(y, t, -0.033507982566321794lf);
    y = fma(y, t, 0.019502775767485055lf);
    y = fma(y, t, -0.013248616505260201lf);
    y = fma(y, t, 0.010871524060414394lf);
    y = fma(y, t, -0.011295143855475934lf);
    y = fma(y, t, 0.01606420704672362lf);
    y = fma(y, t, -0.03671818761627651lf);
    y = fma(y, t, 0.2349964007466546lf);
    y = fma(y, t, 1.2533141373155003lf);
    return y;
}

// J and Y for x from BESSEL_BORDER_DOUBLE on, given P and Q; of order 1 a quarter turn behind
dvec2 oscillating(double x, double p, double q, bool turned) {
    double sine = precise_sin(x), cosine = precise_cos(x);
    // Cosine and sine, times sqrt(2), of x - pi / 4
    double across = cosine + sine, up = sine - cosine, back = -across;
    double first = turned ? up : across, second = turned ? back : up;
    double size = 0.5641895835477563lf / sqrt(x);
    return size * dvec2(p * first - q * second, p * second + q * first);
}

dvec2 far_bessel_0(double x) {
    double t = BESSEL_BORDER_DOUBLE / x, u = t * t;
    return oscillating(x, far_p0(u), t * far_q0(u), false);
}

dvec2 far_bessel_1(double x) {
    double t = BESSEL_BORDER_DOUBLE / x, u = t * t;
    return oscillating(x, far_p1(u), t * far_q1(u), true);
}

double precise_bessel_j0(double x) {
    double size = abs(x), value = near_j0(fma(x * x, 0.03125lf, -1.0lf));
    if (size >= BESSEL_BORDER_DOUBLE) value = far_bessel_0(size).x;
    return value;
}

double precise_bessel_j1(double x) {
    double size = abs(x), value = size * near_j1(fma(x * x, 0.03125lf, -1.0lf));
    if (size >= BESSEL_BORDER_DOUBLE) value = far_bessel_1(size).x;
    uvec2 bits = unpackDouble2x32(value);
    bits.y ^= unpackDouble2x32(x).y & 1u << 31;
    return packDouble2x32(bits);
}

// The value where x is positive, minus infinity at 0 and NaN below
double bessel_or_limit(double x, double value) {
    double least = -INFINITE_DOUBLE, undefined = NAN_DOUBLE;
    double other = x == 0.0lf ? least : undefined;
    return x > 0.0lf ? value : other;
}

double precise_bessel_y0(double x) {
    double v = fma(x * x, 0.03125lf, -1.0lf);
    double value = fma(0.63661977236758134lf * precise_log(x), near_j0(v), near_y0(v));
    if (x >= BESSEL_BORDER_DOUBLE) value = far_bessel_0(x).y;
    return bessel_or_limit(x, value);
}

double precise_bessel_y1(double x) {
    double v = fma(x * x, 0.03125lf, -1.0lf);
    double value = x * fma(0.63661977236758134lf * precise_log(x), near_j1(v), near_y1(v));
    value -= 0.63661977236758134lf / x;
    if (x >= BESSEL_BORDER_DOUBLE) value = far_bessel_1(x).y;
    return bessel_or_limit(x, value);
}

// K and exp(x) K are the same but for a factor, which is in range near 0 or far from it.
double decaying(double x, double near, double far, bool scaled) {
    double bounded = min(x, 2.0lf), beyond = max(x, 2.0lf);
    far /= sqrt(beyond);
    double grown = near * precise_exp(bounded), fallen = far * precise_exp(-beyond);
    double inner = scaled ? grown : near, outer = scaled ? far : fallen;
    double value = -bessel_or_limit(x, x < 2.0lf ? -inner : -outer);
    return x != x ? x : value;
}

double decaying_0(double x, bool scaled) {
    double low = min(x, 2.0lf), v = fma(low * low, 0.5lf, -1.0lf);
    double near = fma(-precise_log(low), near_i0(v), near_k0(v));
    return decaying(x, near, far_k0(2.0lf / max(x, 2.0lf)), scaled);
}

double decaying_1(double x, bool scaled) {
    double low = min(x, 2.0lf), v = fma(low * low, 0.5lf, -1.0lf);
    double near = low * fma(precise_log(low), near_i1(v), near_k1(v)) + 1.0lf / low;
    return decaying(x, near, far_k1(2.0lf / max(x, 2.0lf)), scaled);
}

double precise_k0(double x) { return decaying_0(x, false); }

double precise_k1(double x) { return decaying_1(x, false); }

double precise_k0e(double x) { return decaying_0(x, true); }

double precise_k1e(double x) { return decaying_1(x, true); }

// Airy's function as of float32: near 0 in v, beyond over its decay; below as cosine and sine of a phase
// with slow factors P and Q / t (DLMF 9.7.9), like J and Y far from 0
double near_airy(double v) {
    double y = -6.077851440955447e-09lf;
    y = fma(y, v, 2.7881612803883077e-08lf);
    y = fma(y, v, 2.4187467808081085e-08lf);
    y = fma(y, v, -4.4936649755056036e-07lf);
    y = fma(y, v, 9.685357550822373e-07lf);
    y = fma(y, v, 2.0196143026900927e-06lf);
    y = fma(y, v, -1.4979586315831183e-05lf);
    y = fma(y, v, 2.158631373747993e-05lf);
    y = fma(y, v, 7.323731761645461e-05lf);
    y = fma(y, v, -0.0003579188542972119lf);
    y = fma(y, v, 0.00030961573559508637lf);
    y = fma(y, v, 0.0017882563145818515lf);
    y = fma(y, v, -0.005936100794287372lf);
    y = fma(y, v, 0.0018283753088881743lf);
    y = fma(y, v, 0.028564440853544263lf);
    y = fma(y, v, -0.06264260741495097lf);
    y = fma(y, v, -0.016288585047347422lf);
    y = fma(y, v, 0.27541424278085813lf);
    y = fma(y, v, -0.3639562151593406lf);
    y = fma(y, v, -0.33304537005232593lf);
    y = fma(y, v, 1.3865588181699273lf);
    y = fma(y, v, -0.8451749483701702lf);
    y = fma(y, v, -1.7007395754296375lf);
    y = fma(y, v, 2.7066263579750145lf);
    y = fma(y, v, 0.0012399139199335298lf);
    y = fma(y, v, -2.176202708197827lf);
    y = fma(y, v, 0.7729674180060261lf);
    y = fma(y, v, 0.4642565777488694lf);
    return y;
}

double above_airy(double v) {
    double y = 1.6842572938940016e-07lf;
    y = fma(y, v, -2.1470046505093352e-07lf);
    y = fma(y, v, -1.1149251340673908e-06lf);
    y = fma(y, v, 1.4188954622683423e-06lf);
    y = fma(y, v, 3.3991741424837473e-06lf);
    y = fma(y, v, -4.3218640327641915e-06lf);
    y = fma(y, v, -6.2406237411527874e-06lf);
    y = fma(y, v, 7.92819768006242e-06lf);
    y = fma(y, v, 7.677961835422573e-06lf);
    y = fma(y, v, -9.749501262683577e-06lf);
    y = fma(y, v, -6.633121481222332e-06lf);
    y = fma(y, v, 8.416693835246714e-06lf);
    y = fma(y, v, 4.164392736612999e-06lf);
    y = fma(y, v, -5.2870414933575555e-06lf);
    y = fma(y, v, -1.8485592265289971e-06lf);
    y = fma(y, v, 2.33400085637031e-06lf);
    y = fma(y, v, 7.170693480640437e-07lf);
    y = fma(y, v, -9.384157287179475e-07lf);
    y = fma(y, v, 8.806352657649145e-08lf);
    y = fma(y, v, -1.9993495014667776e-07lf);
    y = fma(y, v, 6.750049785175981e-07lf);
    y = fma(y, v, -1.1482400418979874e-06lf);
    y = fma(y, v, 1.9695682021426143e-06lf);
    y = fma(y, v, -3.5930904044022723e-06lf);
    y = fma(y, v, 6.812824106702455e-06lf);
    y = fma(y, v, -1.3509572256182356e-05lf);
    y = fma(y, v, 2.8348645526588702e-05lf);
    y = fma(y, v, -6.394693306467591e-05lf);
    y = fma(y, v, 0.00015887239226990466lf);
    y = fma(y, v, -0.00045305765556165594lf);
    y = fma(y, v, 0.0016082764345494705lf);
    y = fma(y, v, -0.008754704350941365lf);
    y = fma(y, v, 0.27099888553414014lf);
    return y;
}

double below_airy_p(double v) {
    double y = 1.861129928869604e-12lf;
    y = fma(y, v, -3.877702017549419e-12lf);
    y = fma(y, v, 1.4756745777989362e-12lf);
    y = fma(y, v, -4.894567283461339e-12lf);
    y = fma(y, v, 2.6314696602403106e-11lf);
    y = fma(y, v, -7.427366609792182e-11lf);
    y = fma(y, v, 2.2306763023578285e-10lf);
    y = fma(y, v, -7.919365770811413e-10lf);
    y = fma(y, v, 3.2417833511874295e-09lf);
    y = fma(y, v, -1.5925524010948765e-08lf);
    y = fma(y, v, 1.0042139566285106e-07lf);
    y = fma(y, v, -9.054529364044547e-07lf);
    y = fma(y, v, 1.4258707704894227e-05lf);
    y = fma(y, v, -0.0006209941418028796lf);
    y = fma(y, v, 0.999363720981151lf);
    return y;
}

double below_airy_q(double v) {
    double y = 2.6773160854306283e-12lf;
    y = fma(y, v, -5.364562051756384e-12lf);
    y = fma(y, v, 1.1608255880383953e-12lf);
    y = fma(y, v, -4.410920236040198e-12lf);
    y = fma(y, v, 2.9856971498401636e-11lf);
    y = fma(y, v, -7.876712796975639e-11lf);
    y = fma(y, v, 2.1551335200063143e-10lf);
    y = fma(y, v, -7.043134531220488e-10lf);
    y = fma(y, v, 2.6099127273925556e-09lf);
    y = fma(y, v, -1.1307065660031785e-08lf);
    y = fma(y, v, 6.055758192860693e-08lf);
    y = fma(y, v, -4.3588133980415587e-07lf);
    y = fma(y, v, 4.877086328231436e-06lf);
    y = fma(y, v, -0.00011383719091756563lf);
    y = fma(y, v, 0.0129016076581227lf);
    return y;
}

double airy_phase(double x) { return 0.6666666666666666lf * x * sqrt(x); }

double precise_airy(double x) {
    double high = max(x, 1.0lf), above = airy_phase(high);
    double fallen = above_airy(1.3333333333333333lf / above - 1.0lf) * precise_exp(-above);
    fallen /= sqrt(sqrt(high));
    double low = max(-x, 4.0lf), below = airy_phase(low), t = 5.333333333333333lf / below;
    double sine = precise_sin(below), cosine = precise_cos(below), v = fma(2.0lf * t, t, -1.0lf);
    // Cosine and sine, times sqrt(2), of the phase less pi / 4
    double wave = below_airy_p(v) * (cosine + sine) + t * below_airy_q(v) * (sine - cosine);
    wave *= 0.3989422804014327lf / sqrt(sqrt(low));
    double inner = min(max(x, -4.0lf), 1.0lf);
    double near = near_airy(fma(inner, 0.4lf, 0.6lf)), far = x < 0.0lf ? wave : fallen;
    double value = x > -4.0lf && x < 1.0lf ? near : far;
    return x != x || abs(x) == INFINITE_DOUBLE ? NAN_DOUBLE : value;
}
