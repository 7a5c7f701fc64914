// Resampling along three dimensions at once: out[o, h, i, j] is the sum over u, t, s of
// layer_weight[h, u] * row_weight[i, t] * column_weight[j, s]
// * x[o, layer_first[h] + u, row_first[i] + t, column_first[j] + s]
// grid    one invocation for ROWS elements of out_, in rows beneath each other, linear
// in      x (outer, layers, rows, columns); taps of ACC for layers, rows and columns:
//         (out_size, width) rows of first, count and weights; magic and shift divide by
//         each out_size, of rows by how many times there are ROWS; count: invocations
// out     out_ (outer, out_layers, out_rows, out_columns)
// consts  ROWS
// source  definition; sums along columns are taken first, then along rows, then layers
// lint    scalar-load: weights and elements of a line begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint ROWS = 1;

layout(push_constant, std430) uniform Push {
    In x;
    AccIn layer_taps;
    AccIn row_taps;
    AccIn column_taps;
    Out out_;
    uint count;
    uint layers;
    uint rows;
    uint columns;
    uint out_size[3];
    uint magic[3];
    uint shift[3];
    uint width[3];
} push;

void main() {
    In x = push.x;
    Out out_ = push.out_;
    AccIn layer_taps = push.layer_taps, row_taps = push.row_taps;
    AccIn column_taps = push.column_taps;
    uint element = linear_invocation(), columns = push.columns;
    if (element >= push.count) return;
    uint line = divide(element, push.magic[2], push.shift[2]);
    uint out_rows = push.out_size[1], row_width = push.width[1];
    uint out_columns = push.out_size[2], groups = (out_rows + ROWS - 1) / ROWS;
    uint plane = divide(line, push.magic[1], push.shift[1]);
    uint outer = divide(plane, push.magic[0], push.shift[0]);
    uint h = (plane - outer * push.out_size[0]) * push.width[0];
    uint column = element - line * push.out_size[2], j = column * push.width[2];
    uint layer_count = uint(layer_taps.at[h + 1]);
    uint column_count = uint(column_taps.at[j + 1]);
    uint first_layer = outer * push.layers + uint(layer_taps.at[h]);
    uint from = first_layer * push.rows * columns + uint(column_taps.at[j]);
    uint area = push.rows * columns, first = (line - plane * groups) * ROWS;

    for (uint number = first; number < min(first + ROWS, out_rows); ++number) {
        uint i = number * row_width, row_count = uint(row_taps.at[i + 1]);
        uint begin = from + uint(row_taps.at[i]) * columns;
        ACC volume = ACC(0);
        for (uint u = 0; u < layer_count; ++u) {
            uint layer = begin + u * area;
            ACC total = ACC(0);
            for (uint t = 0; t < row_count; ++t) {
                uint start = layer + t * columns;
                ACC sum = ACC(0);
                for (uint s = 0; s < column_count; ++s)
                    sum =
                        multiply_add(column_taps.at[j + 2 + s], load(x, start + s), sum);
                total = multiply_add(row_taps.at[i + 2 + t], sum, total);
            }
            volume = multiply_add(layer_taps.at[h + 2 + u], total, volume);
        }
        uint line_of_row = plane * out_rows + number;
        store(out_, line_of_row * out_columns + column, volume);
    }
}
