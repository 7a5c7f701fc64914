// Resampling along two dimensions at once: out[o, i, j] is the sum over t, s of
// row_weight[i, t] * column_weight[j, s] * x[o, row_first[i] + t, column_first[j] + s]
// grid    one invocation per element of out_, linear
// in      x (outer, rows, columns); row_taps (out_rows, row_width) of ACC, and
//         column_taps likewise: rows of first, count and weights; out_rows_magic,
//         out_rows_shift and the like: see `divide`
// out     out_ (outer, out_rows, out_columns)
// consts  ACROSS: whether sums along columns are taken first, then along rows of these
// source  as two passes of resample/resample.comp, whose roundings these are
// lint    scalar-load: weights and elements of a line begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint ACROSS = 0;

layout(push_constant, std430) uniform Push {
    In x;
    AccIn row_taps;
    AccIn column_taps;
    Out out_;
    uint count;
    uint rows;
    uint columns;
    uint out_rows;
    uint out_columns;
    uint out_rows_magic;
    uint out_rows_shift;
    uint out_columns_magic;
    uint out_columns_shift;
    uint row_width;
    uint column_width;
} push;

void main() {
    In x = push.x;
    AccIn row_taps = push.row_taps, column_taps = push.column_taps;
    uint element = linear_invocation(), columns = push.columns;
    if (element >= push.count) return;
    uint line = divide(element, push.out_columns_magic, push.out_columns_shift);
    uint outer = divide(line, push.out_rows_magic, push.out_rows_shift);
    uint i = (line - outer * push.out_rows) * push.row_width;
    uint j = (element - line * push.out_columns) * push.column_width;
    uint row_count = uint(row_taps.at[i + 1]), column_count = uint(column_taps.at[j + 1]);
    uint first_row = outer * push.rows + uint(row_taps.at[i]);
    uint from = first_row * columns + uint(column_taps.at[j]);

    // Sums along one dimension are taken again for each tap of the other, of few.
    bool across = ACROSS != 0;
    AccIn inner_taps = across ? column_taps : row_taps;
    AccIn outer_taps = across ? row_taps : column_taps;
    uint inner_at = (across ? j : i) + 2, outer_at = (across ? i : j) + 2;
    uint inner_count = across ? column_count : row_count;
    uint outer_count = across ? row_count : column_count;
    uint inner_step = across ? 1 : columns, outer_step = across ? columns : 1;
    ACC total = ACC(0);
    for (uint s = 0; s < outer_count; ++s) {
        uint start = from + s * outer_step;
        ACC sum = ACC(0);
        for (uint t = 0; t < inner_count; ++t)
            sum = multiply_add(
                inner_taps.at[inner_at + t], load(x, start + t * inner_step), sum);
        total = multiply_add(outer_taps.at[outer_at + s], sum, total);
    }
    store(push.out_, element, total);
}
