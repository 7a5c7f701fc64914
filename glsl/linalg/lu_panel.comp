// LU factors of panels of matrices, with partial pivoting
// grid    linear, one workgroup for each panel
// in      a (panels, m, COLUMNS) float32, m from COLUMNS on
// out     factors (panels, m, COLUMNS): L below the diagonal, where it is 1, and U; order
//         (panels, m): the row of the panel that has become each row; sign (panels, 1): -1
//         where rows were exchanged an odd number of times, else 1
// consts  COLUMNS
// lint    scalar-load: a column of rows, or of a row what is below a pivot, begins at any
//         element
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 3.4.1
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint COLUMNS = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict coherent buffer
    Factors { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict coherent buffer
    Orders { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Signs { float at[]; };

layout(push_constant, std430) uniform Push {
    Floats a;
    Factors factors;
    Orders order;
    Signs sign_;
    uint panels;
    uint rows;
} args;

const uint MOST = 1024;

shared float sizes[MOST];
shared uint places[MOST];
shared float top[COLUMNS];

// Largest of a column from row `first` on; of equal ones the first, of NaN the first
uint pivot_of(Factors factors, uint begin, uint first, uint column) {
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    float best = -1.0;
    uint place = first;
    for (uint row = first + local; row < args.rows; row += size) {
        float value = abs(factors.at[begin + row * COLUMNS + column]);
        if (value > best) {
            best = value;
            place = row;
        }
    }
    sizes[local] = best;
    places[local] = place;
    barrier();
    for (uint half_ = size / 2; half_ > 0; half_ >>= 1) {
        if (local < half_) {
            float other = sizes[local + half_];
            uint there = places[local + half_];
            bool wins = other > sizes[local] ||
                (other == sizes[local] && there < places[local]);
            if (wins) {
                sizes[local] = other;
                places[local] = there;
            }
        }
        barrier();
    }
    return places[0];
}

void main() {
    uint panel = linear_workgroup();
    if (panel >= args.panels) return;
    Floats a = args.a;
    Factors factors = args.factors;
    Orders order = args.order;
    uint rows = args.rows, local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint begin = panel * rows * COLUMNS, lines = panel * rows;
    for (uint i = local; i < rows * COLUMNS; i += size)
        factors.at[begin + i] = a.at[begin + i];
    for (uint row = local; row < rows; row += size) order.at[lines + row] = int(row);
    float sign_ = 1.0;
    for (uint k = 0; k < COLUMNS; ++k) {
        memoryBarrierBuffer();
        barrier();
        uint pivot = pivot_of(factors, begin, k, k);
        if (pivot != k) {
            sign_ = -sign_;
            for (uint column = local; column < COLUMNS; column += size) {
                uint here = begin + k * COLUMNS + column;
                uint there = begin + pivot * COLUMNS + column;
                float kept = factors.at[here];
                factors.at[here] = factors.at[there];
                factors.at[there] = kept;
            }
            if (local == 0) {
                int kept = order.at[lines + k];
                order.at[lines + k] = order.at[lines + pivot];
                order.at[lines + pivot] = kept;
            }
        }
        memoryBarrierBuffer();
        barrier();
        for (uint column = local; column < COLUMNS; column += size)
            top[column] = factors.at[begin + k * COLUMNS + column];
        barrier();
        float divisor = top[k];
        for (uint row = k + 1u + local; row < rows; row += size) {
            uint start = begin + row * COLUMNS;
            float factor = factors.at[start + k];
            // A column of zeros stays one, as in LAPACK.
            factor = divisor == 0.0 ? factor : factor / divisor;
            factors.at[start + k] = factor;
            for (uint column = k + 1u; column < COLUMNS; ++column)
                factors.at[start + column] =
                    fma(-factor, top[column], factors.at[start + column]);
        }
    }
    if (local == 0) args.sign_.at[panel] = sign_;
}
