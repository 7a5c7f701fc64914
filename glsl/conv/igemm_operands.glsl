// Implicit GEMM operands of a convolution, for matmul/*_body.glsl:
// out channels x (in channels, taps) times (in channels, taps) x (batch, out pixels)
// lint    integer-division: once for each column, before the K loop

#include "conv/arguments.glsl"

layout(constant_id = 18) const uint HAS_BIAS = 0;

layout(push_constant, std430) uniform Push {
    In x;
    In weight;
    In bias;
    Out out_;
    CONV2D_SIZES
    uint slice_depth;
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
In x = push.x;
In weight = push.weight;
In bias = push.bias;
Out out_ = push.out_;
ivec2 in_size = ivec2(push.in_height, push.in_width);
uint in_plane = push.in_height * push.in_width;
uint out_plane = push.out_height * push.out_width;
uint depth_count = push.in_channels / push.groups * TAPS;
// Slices of K follow one another along z, each with all groups; so do their results.
uint slice = gl_WorkGroupID.z / push.groups;
uint group = gl_WorkGroupID.z - slice * push.groups;
uint first_out = group * (push.out_channels / push.groups);
uint first_result = slice * push.batch * push.out_channels * out_plane;

#define Row uint
#define Column Pixel
#define Depth Pixel

uint product_rows() { return push.out_channels / push.groups; }
uint product_columns() { return push.batch * out_plane; }

uvec2 product_depth() {
    return min(uvec2(slice, slice + 1) * push.slice_depth, uvec2(depth_count));
}

Row row(uint m) { return (first_out + m) * depth_count; }

Column column(uint n) {
    uint image = n / out_plane;
    uint p = n - image * out_plane;
    uint channel = first_plane(image, push.in_channels)
        + group * (push.in_channels / push.groups) * PLANES;
    ivec2 at = ivec2(p / push.out_width, p % push.out_width);
    return Pixel(channel * in_plane, at * STRIDE - PADDING);
}

Depth depth(uint k) { return Pixel(k / TAPS * PLANES * in_plane, tap_offset(k % TAPS)); }

ACC load_a(Row m, uint k) { return load(weight, m + k); }

ACC load_b(Depth k, Column n) {
    return load_pixel(x, Pixel(n.plane + k.plane, n.at + k.at), in_size);
}

uint result_row(uint m) {
    return first_result + (first_out + m) * PLANES * out_plane;
}

uint result_column(uint n) {
    uint image = n / out_plane;
    return first_plane(image, push.out_channels) * out_plane + (n - image * out_plane);
}

ACC result(uint m, ACC sum) {
    return HAS_BIAS != 0 && slice == 0 ? sum + load(bias, first_out + m) : sum;
}
