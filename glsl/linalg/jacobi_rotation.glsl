// Rotations that make the rows of a pair of blocks orthogonal, by eigenvectors of their products
//
// The includer defines BLOCK, 16 or 32, has BLOCK * BLOCK invocations, all of which call all
// functions in their order, and defines INNER and the buffer reference Reals.
//
// source  Golub and Van Loan, "Matrix Computations", 4th edition, sections 8.5.2 and 8.6.3;
//         de Rijk, "A one-sided Jacobi algorithm for computing the singular value
//         decomposition on a vector computer", SIAM Journal on Scientific and Statistical
//         Computing 10, 1989: the longer row of a pair becomes the first

const uint ROTATORS = BLOCK * BLOCK;
const uint SHARE = SIDE * SIDE / ROTATORS;
#ifdef DOUBLE
#define REAL2 dvec2
const REAL EPS = 2.220446049250313e-16LF;
const REAL SMALL = 1.0e-10LF;
#else
#define REAL2 vec2
const REAL EPS = 1.1920929e-7;
const REAL SMALL = 1.0e-10;
#endif
const REAL UP = 1099511627776.0;
// Square of a cosine from which rows are so far from orthogonal that a second sweep over
// the pair saves others; after smaller ones what is left is nearly their square.
const REAL FAR = 0.01;

// Invocations of few rows make all rotations that they need, from numbers that others leave
// as they are: new ones are stored beside them.
const bool OWN = BLOCK < 32;
const uint TRIANGLE = SIDE * (SIDE + 1) / 2;
const uint PITCH = SIDE + 1;
const uint SQUARE = SIDE * PITCH;
const uint AT_ONCE = 4;

// Products of the rows, by rows of the lower triangle, and the rotations. In each round the
// row in place k is rotated with that in place k + BLOCK, and all but the first move on.
shared REAL gram[OWN ? 2 * TRIANGLE : TRIANGLE];
shared REAL turn[OWN ? 2 * SQUARE : SQUARE];
shared REAL cosines[BLOCK];
shared REAL sines[BLOCK];
// By pairs of places, a bit for each round: whether the row in the first is to be the longer
shared uint leads[BLOCK][2];
shared bool has_turned;

uint place(uint row, uint column) {
    uint low = max(row, column);
    return low * (low + 1) / 2 + min(row, column);
}

// Where the row in place k is in the next round: on a circle that the first is not on
uint moved(uint k) {
    if (k == 0) return 0;
    if (k == BLOCK) return 1;
    if (k == BLOCK - 1) return SIDE - 1;
    return k < BLOCK ? k + 1 : k - 1;
}

// The row that is in place k in a round
uint row_in(uint k, uint round_) {
    if (k == 0) return 0;
    uint circle = SIDE - 1, at = k < BLOCK ? k - 1 : 3 * BLOCK - 2 - k;
    at += circle - round_;
    if (at >= circle) at -= circle;
    return at < BLOCK - 1 ? at + 1 : 3 * BLOCK - 2 - at;
}

// Whether rows of these squared lengths and this product are to be made orthogonal
bool are_apart(REAL one, REAL two, REAL both, REAL tolerance) {
#ifdef DOUBLE
    // Squares stay in range, and roots take long.
    bool found = both * both > tolerance * tolerance * one * two;
#else
    bool found = abs(both) > tolerance * sqrt(one) * sqrt(two);
#endif
    return found && min(one, two) > EPS * EPS;
}

// Cosine and sine of the rotation of rows of these squared lengths and this product, which
// makes the first the longer one if it leads, and else the second; 1 and 0 where they are
// orthogonal
REAL2 rotation(REAL one, REAL two, REAL both, REAL tolerance, bool first_leads) {
    // Squares of what is as small as this would not be numbers.
    REAL up = max(one, two) < SMALL ? UP : REAL(1.0);
    one *= up;
    two *= up;
    both *= up;
    bool turns = both * both > tolerance * tolerance * one * two;
    turns = turns && min(one, two) > EPS * EPS * up;
    if (turns && both * both > FAR * one * two) has_turned = true;
    REAL apart = two - one, twice = both + both;
#ifdef DOUBLE
    // The angle need not be exact, as long as the rotation is one.
    float least = float(min(abs(apart), abs(twice))), most = float(max(abs(apart), abs(twice)));
    float ratio = least / most, whole = most * sqrt(ratio * ratio + 1.0);
    REAL tangent = REAL(float(twice) / (float(abs(apart)) + whole));
    REAL square = tangent * tangent + REAL(1.0);
    REAL cosine = REAL(inversesqrt(float(square)));
    cosine *= REAL(1.5) - REAL(0.5) * square * cosine * cosine;
    cosine *= REAL(1.5) - REAL(0.5) * square * cosine * cosine;
#else
    REAL tangent = twice / (abs(apart) + sqrt(apart * apart + twice * twice));
    REAL cosine = inversesqrt(tangent * tangent + REAL(1.0));
#endif
    if (apart < 0.0) tangent = -tangent;
    REAL sine = tangent * cosine;
    bool swaps = first_leads ? apart > 0.0 : apart < 0.0;
    REAL2 found = swaps ? REAL2(-sine, cosine) : REAL2(cosine, sine);
    return turns ? found : REAL2(1.0, 0.0);
}

// Adds up the products of the rows, and returns whether two of them are not orthogonal
bool are_to_turn(Reals grams, uint start, uint parts, REAL tolerance) {
    uint thread = gl_LocalInvocationIndex;
    REAL sums[SHARE];
    [[unroll]] for (uint j = 0; j < SHARE; ++j) sums[j] = 0.0;
    for (uint part = 0; part < parts; part += AT_ONCE) {
        // All are loaded before the first is added.
        REAL read[AT_ONCE][SHARE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k)
            [[unroll]] for (uint j = 0; j < SHARE; ++j) {
                uint at = start + min(part + k, parts - 1) * SIDE * SIDE;
                read[k][j] = grams.at[at + thread + j * ROTATORS];
            }
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k)
            [[unroll]] for (uint j = 0; j < SHARE; ++j)
                sums[j] += part + k < parts ? read[k][j] : REAL(0.0);
    }
    [[unroll]] for (uint j = 0; j < SHARE; ++j) {
        uint i = thread + j * ROTATORS, row = i / SIDE, column = i % SIDE;
        turn[row * PITCH + column] = row == column ? 1.0 : 0.0;
        if (row >= column) gram[place(row, column)] = sums[j];
    }
    if (thread < BLOCK) {
        uint bits[2] = uint[2](0u, 0u);
        for (uint round_ = 0; round_ + 1 < SIDE; ++round_) {
            bool first = row_in(thread, round_) < row_in(thread + BLOCK, round_);
            uint bit = first ? 1u << (round_ % 32) : 0u;
            if (round_ < 32)
                bits[0] |= bit;
            else
                bits[1] |= bit;
        }
        leads[thread][0] = bits[0];
        leads[thread][1] = bits[1];
    }
    if (thread == 0) has_turned = false;
    barrier();
    [[unroll]] for (uint j = 0; j < SHARE; ++j) {
        uint i = thread + j * ROTATORS, row = i / SIDE, column = i % SIDE;
        if (row <= column) continue;
        REAL first = gram[place(row, row)], second = gram[place(column, column)];
        if (are_apart(first, second, sums[j], tolerance)) has_turned = true;
    }
    barrier();
    return has_turned;
}

// Rotates, and returns where in `turn` the rotations are
uint rotate_rows(REAL tolerance) {
    uint thread = gl_LocalInvocationIndex;
    // The places of an invocation: two rows and two columns
    uint one = thread / BLOCK, two = thread % BLOCK;
    uvec2 p = uvec2(one, one + BLOCK), q = uvec2(two, two + BLOCK);
    uvec2 p_to = uvec2(moved(p.x), moved(p.y)), q_to = uvec2(moved(q.x), moved(q.y));
    uvec3 ends = uvec3(place(q.x, q.x), place(q.y, q.y), place(q.x, q.y));
    uvec3 sides = uvec3(place(p.x, p.x), place(p.y, p.y), place(p.x, p.y));
    uvec4 own = uvec4(place(p.x, q.x), place(p.x, q.y), place(p.y, q.x), place(p.y, q.y));
    uvec4 own_to = uvec4(
        place(p_to.x, q_to.x), place(p_to.x, q_to.y), place(p_to.y, q_to.x),
        place(p_to.y, q_to.y));
    uvec4 cells = uvec4(p.x * PITCH) + uvec4(q, q + uvec2(BLOCK * PITCH));
    uvec4 cells_to = uvec4(p.x * PITCH) + uvec4(q_to, q_to + uvec2(BLOCK * PITCH));
    uint lead_p[2] = leads[one], lead_q[2] = leads[two];
    uint from = 0, to = OWN ? 1 : 0;
    for (uint inner = 0; inner < INNER; ++inner) {
        barrier();
        if (thread == 0) has_turned = false;
        for (uint round_ = 0; round_ + 1 < SIDE; ++round_) {
            barrier();
            uint bit = round_ % 32;
            bool lead_of_q = ((round_ < 32 ? lead_q[0] : lead_q[1]) >> bit & 1u) != 0;
            bool lead_of_p = ((round_ < 32 ? lead_p[0] : lead_p[1]) >> bit & 1u) != 0;
            uint begin = from * TRIANGLE, first = from * SQUARE;
            uint begin_to = to * TRIANGLE, first_to = to * SQUARE;
            REAL xx = gram[begin + own.x], xy = gram[begin + own.y];
            REAL yx = gram[begin + own.z], yy = gram[begin + own.w];
            REAL a = turn[first + cells.x], b = turn[first + cells.y];
            REAL d = turn[first + cells.z], e = turn[first + cells.w];
            REAL2 across = REAL2(1.0, 0.0), down = across;
            if (OWN || one == 0)
                across = rotation(
                    gram[begin + ends.x], gram[begin + ends.y], gram[begin + ends.z],
                    tolerance, lead_of_q);
            if (OWN)
                down = rotation(
                    gram[begin + sides.x], gram[begin + sides.y], gram[begin + sides.z],
                    tolerance, lead_of_p);
            if (!OWN) {
                if (one == 0) {
                    cosines[two] = across.x;
                    sines[two] = across.y;
                }
                barrier();
                across = REAL2(cosines[two], sines[two]);
                down = REAL2(cosines[one], sines[one]);
            }
            REAL c = across.x, s = across.y;
            if (one >= two) {
                REAL left = c * xx - s * xy, right = s * xx + c * xy;
                REAL lower_left = c * yx - s * yy, lower_right = s * yx + c * yy;
                gram[begin_to + own_to.x] = down.x * left - down.y * lower_left;
                gram[begin_to + own_to.z] = down.y * left + down.x * lower_left;
                gram[begin_to + own_to.w] = down.y * right + down.x * lower_right;
                if (one != two)
                    gram[begin_to + own_to.y] = down.x * right - down.y * lower_right;
            }
            turn[first_to + cells_to.x] = c * a - s * b;
            turn[first_to + cells_to.y] = s * a + c * b;
            turn[first_to + cells_to.z] = c * d - s * e;
            turn[first_to + cells_to.w] = s * d + c * e;
            uint kept = from;
            from = to;
            to = kept;
        }
        barrier();
        if (!has_turned) break;
    }
    return from * SQUARE;
}

// Makes the rotations from `first` on orthogonal, and returns those of an invocation: of
// rows (one, one + BLOCK) and columns (two, two + BLOCK)
REAL[2][2] orthogonal(uint first, uint one, uint two) {
    uvec2 p = uvec2(one, one + BLOCK), q = uvec2(two, two + BLOCK);
    REAL rest[2][2];
    // Rounding makes all rotations a little too long, or too short: a step of Newton's method
    // for the nearest orthogonal matrix.
    barrier();
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            rest[r][c] = r == c && one == two ? 1.0 : 0.0;
    [[unroll]] for (uint k = 0; k < SIDE; ++k) {
        uint row = first + k * PITCH;
        REAL a = turn[row + p.x], b = turn[row + p.y];
        REAL x = turn[row + q.x], y = turn[row + q.y];
        rest[0][0] = fma(-a, x, rest[0][0]);
        rest[0][1] = fma(-a, y, rest[0][1]);
        rest[1][0] = fma(-b, x, rest[1][0]);
        rest[1][1] = fma(-b, y, rest[1][1]);
    }
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            if (p[r] >= q[c]) gram[place(p[r], q[c])] = REAL(0.5) * rest[r][c];
    barrier();
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c) rest[r][c] = 0.0;
    [[unroll]] for (uint k = 0; k < SIDE; ++k) {
        REAL a = turn[first + p.x * PITCH + k], b = turn[first + p.y * PITCH + k];
        REAL x = gram[place(k, q.x)], y = gram[place(k, q.y)];
        rest[0][0] = fma(a, x, rest[0][0]);
        rest[0][1] = fma(a, y, rest[0][1]);
        rest[1][0] = fma(b, x, rest[1][0]);
        rest[1][1] = fma(b, y, rest[1][1]);
    }
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            rest[r][c] += turn[first + p[r] * PITCH + q[c]];
    return rest;
}
