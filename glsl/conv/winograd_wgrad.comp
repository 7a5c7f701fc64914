// Winograd transform of the gradient by filters, and the sum of its parts
// grid    linear in filters
// in      products (parts, points, filters)
// out     out_ (filters, TAPS_DOWN, TAPS_ACROSS)
// consts  those of conv/winograd.glsl
// source  conv/winograd.glsl: the transpose of conv/winograd_filters.comp
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/winograd.glsl"

layout(push_constant, std430) uniform Push {
    In products;
    Out out_;
    uint filters;
    uint parts;
} push;

void main() {
    uint number = linear_invocation(), filters = push.filters, parts = push.parts;
    if (number >= filters) return;
    In products = push.products;
    Out out_ = push.out_;
    float sums[TAPS_DOWN][MOST];
    [[unroll]] for (uint j = 0; j < POINTS_ACROSS; ++j) {
        float line[MOST];
        [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) {
            uint from = number + (i * POINTS_ACROSS + j) * filters;
            line[i] = 0.0;
            for (uint part = 0; part < parts; ++part)
                line[i] += load(products, from + part * POINTS_DOWN * POINTS_ACROSS * filters);
        }
        combine(POINTS_DOWN, TAPS_DOWN, line);
        [[unroll]] for (uint i = 0; i < TAPS_DOWN; ++i) sums[i][j] = line[i];
    }
    [[unroll]] for (uint i = 0; i < TAPS_DOWN; ++i) {
        combine(POINTS_ACROSS, TAPS_ACROSS, sums[i]);
        [[unroll]] for (uint j = 0; j < TAPS_ACROSS; ++j)
            store(out_, (number * TAPS_DOWN + i) * TAPS_ACROSS + j, sums[i][j]);
    }
}
