// Winograd's minimal filtering F(TILE, TAPS): TILE results in a line from windows of
// POINTS = TILE + TAPS - 1 pixels with as many products
//
// Filter and tile are polynomials, which are evaluated at 0, pairs of points +-p and
// infinity: those of PAIRS. Others have larger errors: in place of 2/3 and 3/2, those of 1
// and 2 twice. Both directions of an image have sizes of their own; one tap makes nothing
// of a direction.
// Source: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016; definition

layout(constant_id = 3) const uint TAPS_DOWN = 3;
layout(constant_id = 4) const uint TAPS_ACROSS = 3;
layout(constant_id = 5) const uint TILE_DOWN = 4;
layout(constant_id = 6) const uint TILE_ACROSS = 4;

const uint POINTS_DOWN = TILE_DOWN + TAPS_DOWN - 1;
const uint POINTS_ACROSS = TILE_ACROSS + TAPS_ACROSS - 1;
const uint MOST = 12;  // points

#define PAIRS(PAIR) \
    if (points == 4) { \
        PAIR(1, 1.0) \
    } else if (points == 6) { \
        PAIR(1, (2.0 / 3.0)) \
        PAIR(3, 1.5) \
    } else if (points == 8) { \
        PAIR(1, 0.5) \
        PAIR(3, 1.0) \
        PAIR(5, 2.0) \
    } else if (points == 10) { \
        PAIR(1, 0.4) \
        PAIR(3, 0.8) \
        PAIR(5, 1.25) \
        PAIR(7, 2.5) \
    } else { \
        PAIR(1, 0.4) \
        PAIR(3, (2.0 / 3.0)) \
        PAIR(5, 1.0) \
        PAIR(7, 1.5) \
        PAIR(9, 2.5) \
    }

// A polynomial of up to eight coefficients in place of its values.
#define AT_PAIR(k, p) \
    even = fma(p * p, c[6], c[4]); \
    odd = fma(p * p, c[7], c[5]); \
    even = fma(p * p, terms > 4 ? even : 0.0, c[2]); \
    odd = fma(p * p, terms > 5 ? odd : 0.0, c[3]); \
    even = fma(p * p, terms > 2 ? even : 0.0, c[0]); \
    odd = p * fma(p * p, terms > 3 ? odd : 0.0, c[1]); \
    v[k] = even + odd; \
    v[k + 1] = even - odd;

void evaluate(uint points, uint terms, inout float c[MOST]) {
    if (points == 1) return;
    float v[MOST], even, odd, last = c[terms - 1];
    if (terms < 8) c[7] = 0.0;
    if (terms < 7) c[6] = 0.0;
    v[0] = c[0];
    PAIRS(AT_PAIR)
    v[points - 1] = last;
    c = v;
}

// The transpose of `evaluate`: sums of values in place of these.
#define FROM_PAIR(k, p) \
    even = v[k] + v[k + 1]; \
    odd = p * (v[k] - v[k + 1]); \
    c[0] += even; \
    c[1] += odd; \
    c[2] = fma(p * p, even, c[2]); \
    c[3] = fma(p * p, odd, c[3]); \
    c[4] = fma(p * p * p * p, even, c[4]); \
    c[5] = fma(p * p * p * p, odd, c[5]); \
    c[6] = fma(p * p * p * p * p * p, even, c[6]); \
    c[7] = fma(p * p * p * p * p * p, odd, c[7]);

void combine(uint points, uint terms, inout float v[MOST]) {
    if (points == 1) return;
    float c[MOST], even, odd;
    [[unroll]] for (uint j = 0; j < MOST; ++j) c[j] = j == 0 ? v[0] : 0.0;
    PAIRS(FROM_PAIR)
    c[terms - 1] += v[points - 1];
    v = c;
}

// Rows of a pair of 10 or 12 points: a polynomial in the square of x, times x + p and x.
#define WINDOW_10(k, p, e0, e1, e2, e3) \
    even = e0 * d[2] + e1 * d[4] + e2 * d[6] + e3 * d[8]; \
    odd = p * (e0 * d[1] + e1 * d[3] + e2 * d[5] + e3 * d[7]); \
    v[k] = even + odd; \
    v[k + 1] = even - odd;
#define WINDOW_12(k, p, e0, e1, e2, e3, e4) \
    even = e0 * d[2] + e1 * d[4] + e2 * d[6] + e3 * d[8] + e4 * d[10]; \
    odd = p * (e0 * d[1] + e1 * d[3] + e2 * d[5] + e3 * d[7] + e4 * d[9]); \
    v[k] = even + odd; \
    v[k + 1] = even - odd;

// The inverse of evaluating products, transposed, on the pixels of a window: rows of
// Lagrange polynomials, and of the one that is zero at all points.
void transform_window(uint points, inout float d[MOST]) {
    if (points == 1) return;
    float v[MOST], even, odd;
    if (points == 4) {
        v[0] = d[0] - d[2];
        v[1] = 0.5 * (d[2] + d[1]);
        v[2] = 0.5 * (d[2] - d[1]);
        v[3] = d[3] - d[1];
    } else if (points == 6) {
        v[0] = d[0] - (97.0 / 36.0) * d[2] + d[4];
        even = (-81.0 / 130.0) * (d[4] - 2.25 * d[2]);
        odd = (-81.0 / 130.0) * ((2.0 / 3.0) * d[3] - 1.5 * d[1]);
        v[1] = even + odd;
        v[2] = even - odd;
        even = (8.0 / 65.0) * (d[4] - (4.0 / 9.0) * d[2]);
        odd = (8.0 / 65.0) * (1.5 * d[3] - (2.0 / 3.0) * d[1]);
        v[3] = even + odd;
        v[4] = even - odd;
        v[5] = d[1] - (97.0 / 36.0) * d[3] + d[5];
    } else if (points == 8) {
        v[0] = d[0] - d[6] + 5.25 * (d[4] - d[2]);
        even = (32.0 / 45.0) * (4.0 * d[2] - 5.0 * d[4] + d[6]);
        odd = (32.0 / 45.0) * (2.0 * d[1] - 2.5 * d[3] + 0.5 * d[5]);
        v[1] = even + odd;
        v[2] = even - odd;
        even = (-2.0 / 9.0) * (d[2] - 4.25 * d[4] + d[6]);
        odd = (-2.0 / 9.0) * (d[1] - 4.25 * d[3] + d[5]);
        v[3] = even + odd;
        v[4] = even - odd;
        even = (1.0 / 90.0) * (0.25 * d[2] - 1.25 * d[4] + d[6]);
        odd = (1.0 / 90.0) * (0.5 * d[1] - 2.5 * d[3] + 2.0 * d[5]);
        v[5] = even + odd;
        v[6] = even - odd;
        v[7] = d[7] - d[1] + 5.25 * (d[3] - d[5]);
    } else if (points == 10) {
        v[0] = d[0] + d[8] + 16.118025 * d[4] - 8.6125 * (d[2] + d[6]);
        WINDOW_10(1, 0.4, 4.76396584, -11.2548693, 6.44278741, -0.762234535)
        WINDOW_10(3, 0.8, -0.491405013, 3.46440534, -2.50734494, 0.314499209)
        WINDOW_10(5, 1.25, 0.0337690954, -0.269224113, 0.371987691, -0.0527642115)
        WINDOW_10(7, 2.5, -7.9926084e-5, 6.75575225e-4, -1.18015858e-3, 4.99538025e-4)
        v[9] = d[1] + d[9] + 16.118025 * d[5] - 8.6125 * (d[3] + d[7]);
    } else {
        v[0] = d[0] - d[10] + (4547.0 / 450.0) * (d[8] - d[2])
            + (34051.0 / 1200.0) * (d[4] - d[6]);
        WINDOW_12(1, 0.4, 6.42228713, -24.754349, 27.5230683, -10.2185724, 1.02756594)
        WINDOW_12(3, (2.0 / 3.0),
            -1.52811292, 12.0024781, -16.355902, 6.56069815, -0.679161299)
        WINDOW_12(5, 1.0, 0.163265306, -1.48643991, 3.14634921, -1.48643991, 0.163265306)
        WINDOW_12(7, 1.5,
            -5.23453155e-3, 0.0505655748, -0.126060606, 0.0925072588, -0.011777696)
        WINDOW_12(9, 2.5,
            1.72396957e-5, -1.71439197e-4, 4.61760462e-4, -4.15309059e-4, 1.07748098e-4)
        v[11] = d[11] - d[1] + (4547.0 / 450.0) * (d[3] - d[9])
            + (34051.0 / 1200.0) * (d[7] - d[5]);
    }
    d = v;
}
