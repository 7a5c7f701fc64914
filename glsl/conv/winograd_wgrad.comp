// Winograd transform of the gradient by filters, and the sum of its parts
// grid    linear in segments of filters
// in      products (parts, points, rows, SEGMENTS, channels)
// out     out_ (rows, channels, FILTER_LINES, FILTER_COLUMNS)
// consts  those of conv/winograd.glsl and conv/winograd_segments.glsl
// source  conv/winograd.glsl: the transpose of conv/winograd_filters.comp
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/winograd.glsl"
#include "conv/winograd_segments.glsl"

layout(push_constant, std430) uniform Push {
    In products;
    Out out_;
    uint segments;  // of all filters
    uint parts;
    uint channels;
    uint channels_magic;
    uint channels_shift;
} push;

void main() {
    uint number = linear_invocation(), segments = push.segments, parts = push.parts;
    if (number >= segments) return;
    In products = push.products;
    Out out_ = push.out_;
    uint plane = POINTS_DOWN * POINTS_ACROSS * segments;
    float sums[TAPS_DOWN][MOST];
    [[unroll]] for (uint j = 0; j < POINTS_ACROSS; ++j) {
        float line[MOST];
        [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) {
            uint from = number + (i * POINTS_ACROSS + j) * segments;
            line[i] = 0.0;
            for (uint part = 0; part < parts; ++part)
                line[i] += load(products, from + part * plane);
        }
        combine(POINTS_DOWN, TAPS_DOWN, line);
        [[unroll]] for (uint i = 0; i < TAPS_DOWN; ++i) sums[i][j] = line[i];
    }
    uvec2 part = segment_of(
        number, push.channels, push.channels_magic, push.channels_shift);
    uint row = part.x / SEGMENTS;
    uvec2 first = first_tap(part.x - row * SEGMENTS);
    uint lines = (row * push.channels + part.y) * FILTER_LINES + first.x;
    [[unroll]] for (uint i = 0; i < TAPS_DOWN; ++i) {
        combine(POINTS_ACROSS, TAPS_ACROSS, sums[i]);
        if (first.x + i >= FILTER_LINES) continue;
        [[unroll]] for (uint j = 0; j < TAPS_ACROSS; ++j) {
            uint column = first.y + j;
            if (column >= FILTER_COLUMNS) continue;
            store(out_, (lines + i) * FILTER_COLUMNS + column, sums[i][j]);
        }
    }
}
