// Winograd filter transform: the left operands of products, one for each point
// grid    linear in elements of one operand
// in      weight, a filter for each row and channel of the operand, with its strides
// out     out_ (points, rows, depth): channels of each segment, then zeros
// consts  those of conv/winograd.glsl and conv/winograd_segments.glsl; TURNED: filters are
//         turned around, as the gradient by images takes them
// source  conv/winograd.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/winograd.glsl"
#include "conv/winograd_segments.glsl"

layout(constant_id = 7) const uint TURNED = 0;

layout(push_constant, std430) uniform Push {
    In weight;
    Out out_;
    uint rows;
    uint depth;
    uint channels;  // those of `own_depth` that are no padding
    uint own_rows;  // of a group
    uint row_stride;  // of filters
    uint channel_stride;
    uint group_stride;
    uint depth_magic;
    uint depth_shift;
    uint own_depth;  // of a segment
    uint own_magic;
    uint own_shift;
} push;

void main() {
    uint number = linear_invocation(), plane = push.rows * push.depth;
    if (number >= plane) return;
    In weight = push.weight;
    Out out_ = push.out_;
    uint row = divide(number, push.depth_magic, push.depth_shift);
    uvec2 part = segment_of(
        number - row * push.depth, push.own_depth, push.own_magic, push.own_shift);
    uint channel = part.y;
    uvec2 first = first_tap(part.x);
    bool exists = channel < push.channels;
    uint group = row / push.own_rows, own_row = row - group * push.own_rows;
    uint filter_ = group * push.group_stride + own_row * push.row_stride
        + channel * push.channel_stride;
    float values[POINTS_DOWN][MOST];
    [[unroll]] for (uint x = 0; x < TAPS_ACROSS; ++x) {
        float line[MOST];
        [[unroll]] for (uint y = 0; y < TAPS_DOWN; ++y) {
            uint own_y = first.x + y, own_x = first.y + x;
            bool there = exists && own_y < FILTER_LINES && own_x < FILTER_COLUMNS;
            uint tap = own_y * FILTER_COLUMNS + own_x;
            if (TURNED != 0) tap = FILTER_LINES * FILTER_COLUMNS - 1 - tap;
            float value = load(weight, there ? filter_ + tap : 0);
            line[y] = there ? value : 0.0;
        }
        evaluate(POINTS_DOWN, TAPS_DOWN, line);
        [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) values[i][x] = line[i];
    }
    [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) {
        evaluate(POINTS_ACROSS, TAPS_ACROSS, values[i]);
        [[unroll]] for (uint j = 0; j < POINTS_ACROSS; ++j)
            store(out_, (i * POINTS_ACROSS + j) * plane + number, values[i][j]);
    }
}
