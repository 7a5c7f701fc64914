// Winograd's minimal filtering F(TILE, TAPS): TILE results in a line from windows of
// POINTS = TILE + TAPS - 1 pixels with as many products
//
// Filter and tile are polynomials, which are evaluated at 0, pairs of points +-p and
// infinity: with 4 points at 1, with 6 at 2/3 and 3/2, with 8 at 1/2, 1 and 2. Others
// have larger errors: by rounding alone, those of 1 and 2 twice. Both directions of an
// image have sizes of their own; one tap makes nothing of a direction.
// Source: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016; definition

layout(constant_id = 3) const uint TAPS_DOWN = 3;
layout(constant_id = 4) const uint TAPS_ACROSS = 3;
layout(constant_id = 5) const uint TILE_DOWN = 4;
layout(constant_id = 6) const uint TILE_ACROSS = 4;

const uint POINTS_DOWN = TILE_DOWN + TAPS_DOWN - 1;
const uint POINTS_ACROSS = TILE_ACROSS + TAPS_ACROSS - 1;
const uint MOST = 8;  // points

// A polynomial of up to five coefficients in place of its values.
#define AT_PAIR(k, p) \
    even = fma(p * p, terms > 4 ? fma(p * p, c[4], c[2]) : c[2], c[0]); \
    odd = p * (terms > 3 ? fma(p * p, c[3], c[1]) : c[1]); \
    v[k] = even + odd; \
    v[k + 1] = even - odd;

void evaluate(uint points, uint terms, inout float c[MOST]) {
    if (points == 1) return;
    float v[MOST], even, odd;
    if (terms < 3) c[2] = 0.0;
    v[0] = c[0];
    if (points == 4) {
        AT_PAIR(1, 1.0)
    } else if (points == 6) {
        AT_PAIR(1, (2.0 / 3.0))
        AT_PAIR(3, 1.5)
    } else {
        AT_PAIR(1, 0.5)
        AT_PAIR(3, 1.0)
        AT_PAIR(5, 2.0)
    }
    v[points - 1] = c[terms - 1];
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
    c[4] = fma(p * p * p * p, even, c[4]);

void combine(uint points, uint terms, inout float v[MOST]) {
    if (points == 1) return;
    float c[MOST] = float[](v[0], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), even, odd;
    if (points == 4) {
        FROM_PAIR(1, 1.0)
    } else if (points == 6) {
        FROM_PAIR(1, (2.0 / 3.0))
        FROM_PAIR(3, 1.5)
    } else {
        FROM_PAIR(1, 0.5)
        FROM_PAIR(3, 1.0)
        FROM_PAIR(5, 2.0)
    }
    c[terms - 1] += v[points - 1];
    v = c;
}

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
    } else {
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
    }
    d = v;
}
