// Resampling along three dimensions at once: out[o, h, i, j] is the sum over u, t, s of
// layer_weight[h, u] * row_weight[i, t] * column_weight[j, s]
// * x[o, layer_first[h] + u, row_first[i] + t, column_first[j] + s]
// grid    one invocation per element of out_, linear
// in      x (outer, layers, rows, columns); taps of ACC for layers, rows and columns:
//         (out_size, width) rows of first, count and weights; magic and shift divide by
//         each out_size
// out     out_ (outer, out_layers, out_rows, out_columns)
// consts  none
// source  definition; sums along columns are taken first, then along rows, then layers
// lint    scalar-load: weights and elements of a line begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

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
    AccIn layer_taps = push.layer_taps, row_taps = push.row_taps;
    AccIn column_taps = push.column_taps;
    uint element = linear_invocation(), columns = push.columns;
    if (element >= push.count) return;
    uint line = divide(element, push.magic[2], push.shift[2]);
    uint plane = divide(line, push.magic[1], push.shift[1]);
    uint outer = divide(plane, push.magic[0], push.shift[0]);
    uint h = (plane - outer * push.out_size[0]) * push.width[0];
    uint i = (line - plane * push.out_size[1]) * push.width[1];
    uint j = (element - line * push.out_size[2]) * push.width[2];
    uint layer_count = uint(layer_taps.at[h + 1]), row_count = uint(row_taps.at[i + 1]);
    uint column_count = uint(column_taps.at[j + 1]);
    uint first_layer = outer * push.layers + uint(layer_taps.at[h]);
    uint first_row = first_layer * push.rows + uint(row_taps.at[i]);
    uint from = first_row * columns + uint(column_taps.at[j]), area = push.rows * columns;

    ACC volume = ACC(0);
    for (uint u = 0; u < layer_count; ++u) {
        uint layer = from + u * area;
        ACC total = ACC(0);
        for (uint t = 0; t < row_count; ++t) {
            uint start = layer + t * columns;
            ACC sum = ACC(0);
            for (uint s = 0; s < column_count; ++s)
                sum = multiply_add(column_taps.at[j + 2 + s], load(x, start + s), sum);
            total = multiply_add(row_taps.at[i + 2 + t], sum, total);
        }
        volume = multiply_add(layer_taps.at[h + 2 + u], total, volume);
    }
    store(push.out_, element, volume);
}
