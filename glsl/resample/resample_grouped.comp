// Resampling by long sums: out[o, h, i, j] as of resample/resample3d.comp, or of one or
// two dimensions, by a group of invocations for each
// grid    GROUP invocations for each element of out_, linear
// in      x (outer, layers, rows, columns); taps of ACC for layers, rows and columns:
//         (out_size, width) rows of first, count and weights; magic and shift divide by
//         each out_size; count: elements of out_
// out     out_ (outer, out_layers, out_rows, out_columns)
// consts  DIMS: dimensions that have taps, the last ones; GROUP; ACROSS: invocations of
//         a group beside each other along columns, which divides GROUP; ROWS, ITEMS:
//         rows, and elements of each, that an invocation loads at once
// source  definition; each invocation sums elements ACROSS columns apart, of rows apart
// lint    scalar-load: elements of a line begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint DIMS = 3;
layout(constant_id = 6) const uint ACROSS = 1;
layout(constant_id = 7) const uint ROWS = 1;
layout(constant_id = 8) const uint ITEMS = 1;

#define State ACC
ACC merge(ACC a, ACC b) { return a + b; }
#include "lib/group_reduce.glsl"

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

// Goes on to the layer that has a row whose number is past those of its layer.
void next_layer(inout uint layer, inout uint row, uint layer_count, uint row_count) {
    while (row >= row_count && layer < layer_count) {
        row -= row_count;
        ++layer;
    }
}

void main() {
    In x = push.x;
    AccIn layer_taps = push.layer_taps, row_taps = push.row_taps;
    AccIn column_taps = push.column_taps;
    uint slot = output_slot(), part = group_part(), columns = push.columns;
    uint number = linear_workgroup() * OUTPUTS + slot;
    bool is_result = number < push.count;
    number = min(number, push.count - 1);
    uint line = divide(number, push.magic[2], push.shift[2]);
    uint plane = divide(line, push.magic[1], push.shift[1]);
    uint outer = divide(plane, push.magic[0], push.shift[0]);
    uint h = (plane - outer * push.out_size[0]) * push.width[0];
    uint i = (line - plane * push.out_size[1]) * push.width[1];
    uint j = (number - line * push.out_size[2]) * push.width[2];

    uint layer_count = 1, row_count = 1, column_count = uint(column_taps.at[j + 1]);
    uint first_layer = 0, first_row = 0;
    if (DIMS > 1) {
        first_row = uint(row_taps.at[i]);
        row_count = uint(row_taps.at[i + 1]);
    }
    if (DIMS > 2) {
        first_layer = uint(layer_taps.at[h]);
        layer_count = uint(layer_taps.at[h + 1]);
    }
    uint area = push.rows * columns;
    uint from = (outer * push.layers + first_layer) * area + first_row * columns;
    from += uint(column_taps.at[j]);

    ACC volume = ACC(0);
    uint layer = 0, row = part / ACROSS;
    next_layer(layer, row, layer_count, row_count);
    while (layer < layer_count) {
        uint starts[ROWS];
        ACC weights[ROWS], sums[ROWS];
        bool are_taps[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            // What is past the last row reads the first one, and is not added.
            bool is_tap = are_taps[r] = layer < layer_count;
            uint u = is_tap ? layer : 0, t = is_tap ? row : 0;
            starts[r] = from + u * area + t * columns;
            weights[r] = ACC(1);
            if (DIMS > 1) weights[r] = row_taps.at[i + 2 + t];
            if (DIMS > 2) weights[r] *= layer_taps.at[h + 2 + u];
            sums[r] = ACC(0);
            row += GROUP / ACROSS;
            next_layer(layer, row, layer_count, row_count);
        }
        for (uint s = part % ACROSS; s < column_count; s += ITEMS * ACROSS) {
            ACC taps[ITEMS], values[ITEMS * ROWS];
            [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
                uint place = min(s + k * ACROSS, column_count - 1);
                taps[k] = column_taps.at[j + 2 + place];
                [[unroll]] for (uint r = 0; r < ROWS; ++r)
                    values[k * ROWS + r] = load(x, starts[r] + place);
            }
            [[unroll]] for (uint k = 0; k < ITEMS; ++k)
                if (s + k * ACROSS < column_count)
                    [[unroll]] for (uint r = 0; r < ROWS; ++r)
                        sums[r] = multiply_add(taps[k], values[k * ROWS + r], sums[r]);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r)
            if (are_taps[r]) volume = multiply_add(weights[r], sums[r], volume);
    }
    volume = over_group(volume, slot, part);
    if (part == 0 && is_result) store(push.out_, number, volume);
}
