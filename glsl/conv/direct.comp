// Direct convolution of groups with few channels, or its dgrad with a stride of 1
// grid    linear, one invocation for a register tile of out_: CHANNELS x PIXELS
// in      x (batch, groups * in_count, in_height, in_width), weight, bias
// out     out_ (batch, groups * out_count, out_height, out_width)
// consts  KERNEL_*, STRIDE_*, DILATION_*, HAS_BIAS; TURNED: filters are turned around,
//         as the gradient takes them; VECTOR_STORES: out_width is of whole vectors;
//         those of conv/line_segment.glsl and conv/volume.glsl
// source  definition
// lint    scalar-load: of filters, which all invocations of a plane share
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/volume.glsl"
#include "lib/window.glsl"
#include "conv/line_segment.glsl"

layout(constant_id = 18) const uint HAS_BIAS = 0;
layout(constant_id = 19) const uint TURNED = 0;
layout(constant_id = 20) const uint VECTOR_STORES = 0;

layout(push_constant, std430) uniform Push {
    In x;
    In weight;
    In bias;
    Out out_;
    uint count;  // register tiles
    uint in_count;
    uint out_count;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
    uint groups;
    uint filter_out;  // distance of the filters of neighbouring channels of out_, of x
    uint filter_in;
    uint segments;  // of a line of out_
    uint segments_magic;
    uint segments_shift;
    uint height_magic;  // divides by out_height
    uint height_shift;
    uint tiles_magic;  // divides by the tiles of an image's channels
    uint tiles_shift;
} push;

void main() {
    uint number = linear_invocation();
    if (number >= push.count) return;
    uint row = divide(number, push.segments_magic, push.segments_shift);
    uint segment = number - row * push.segments;
    uint tile = divide(row, push.height_magic, push.height_shift);
    uint line = row - tile * push.out_height;
    uint image = divide(tile, push.tiles_magic, push.tiles_shift);
    uint channels = push.groups * push.out_count;
    uint first = tile * CHANNELS - image * channels;
    uint group = first / push.out_count;
    uint in_plane = push.in_height * push.in_width;
    uint in_first = first_plane(image, push.groups * push.in_count);
    uint plane = (in_first + group * push.in_count * PLANES) * in_plane;
    uint filters = group * push.in_count * push.out_count * TAPS
        + (first - group * push.out_count) * push.filter_out;

    ACC sum[CHANNELS][PIXELS];
    [[unroll]] for (uint o = 0; o < CHANNELS; ++o) {
        ACC start = HAS_BIAS != 0 ? load(push.bias, first + o) : ACC(0);
        [[unroll]] for (uint p = 0; p < PIXELS; ++p) sum[o][p] = start;
    }
    [[dont_unroll]] for (uint channel = 0; channel < push.in_count; ++channel) {
        [[dont_unroll]] for (uint tap_y = 0; tap_y < KERNEL_H; ++tap_y) {
            uint y = line * STRIDE_H + tap_y * DILATION_H - BEFORE_H;
            if (y >= push.in_height) continue;
            ACC seen[LOADED];
            uint start = plane + channel * PLANES * in_plane + y * push.in_width;
            LOAD_SEGMENT(seen, push.x, start, push.in_width, segment)
            [[unroll]] for (uint tap_x = 0; tap_x < KERNEL_W; ++tap_x) {
                uint tap = tap_y * KERNEL_W + tap_x;
                uint filter_ = filters + channel * push.filter_in
                    + (TURNED != 0 ? TAPS - 1 - tap : tap);
                [[unroll]] for (uint o = 0; o < CHANNELS; ++o) {
                    ACC factor = load(push.weight, filter_ + o * push.filter_out);
                    [[unroll]] for (uint p = 0; p < PIXELS; ++p)
                        sum[o][p] = multiply_add(
                            seen[SKEW + p * STRIDE_W + tap_x * DILATION_W], factor,
                            sum[o][p]);
                }
            }
        }
    }
    uint column = segment * PIXELS, out_first = first_plane(image, channels);
    [[unroll]] for (uint o = 0; o < CHANNELS; ++o) {
        uint to = ((out_first + (first + o) * PLANES) * push.out_height + line)
                * push.out_width + column;
#if BYTES <= 4
        if (VECTOR_STORES != 0) {
            [[unroll]] for (uint p = 0; p < PIXELS / 4; ++p) {
                ACC4 values;
                [[unroll]] for (uint e = 0; e < 4; ++e)
                    values[e] = sum[o][min(4 * p + e, PIXELS - 1)];
                if (column + 4 * p < push.out_width)
                    store_quad(QuadsOut(push.out_), to / 4 + p, values);
            }
            continue;
        }
#endif
        [[unroll]] for (uint p = 0; p < PIXELS; ++p)
            if (column + p < push.out_width) store(push.out_, to + p, sum[o][p]);
    }
}
