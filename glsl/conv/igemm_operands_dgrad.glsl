// Implicit GEMM operands of dgrad, the gradient by the images, for matmul/*_body.glsl:
// in channels x (out channels, taps) times (out channels, taps) x (batch, in pixels)
// lint    integer-division: once for each column, before the K loop
// lint    scalar-load: of the bias, once for each row, after the K loop

#include "conv/arguments.glsl"

layout(constant_id = 18) const uint HAS_BIAS = 0;

layout(push_constant, std430) uniform Push {
    In grad;
    In weight;
    In bias;
    Out out_;
    CONV2D_SIZES
    uint slice_depth;
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
In grad = push.grad;
In weight = push.weight;
In bias = push.bias;
Out out_ = push.out_;
ivec2 out_size = ivec2(push.out_height, push.out_width);
uint in_plane = push.in_height * push.in_width;
uint out_plane = push.out_height * push.out_width;
uint in_count = push.in_channels / push.groups;
uint out_count = push.out_channels / push.groups;
uint filter_size = in_count * TAPS;
// Slices of K follow one another along z, each with all groups; so do their results.
uint slice = gl_WorkGroupID.z / push.groups;
uint group = gl_WorkGroupID.z - slice * push.groups;
uint first_in = group * in_count;
uint first_result = slice * push.batch * push.in_channels * in_plane;

#define Row uint
#define Column Pixel
#define Depth Pixel

uint product_rows() { return in_count; }
uint product_columns() { return push.batch * in_plane; }

uvec2 product_depth() {
    return min(uvec2(slice, slice + 1) * push.slice_depth, uvec2(out_count * TAPS));
}

Row row(uint m) { return group * out_count * filter_size + m * TAPS; }

Column column(uint n) {
    uint image = n / in_plane;
    uint p = n - image * in_plane;
    uint channel = first_plane(image, push.out_channels) + group * out_count * PLANES;
    ivec2 at = ivec2(p / push.in_width, p % push.in_width);
    return Pixel(channel * out_plane, at + PADDING);
}

Depth depth(uint k) { return Pixel(k / TAPS * PLANES * out_plane, tap_offset(k % TAPS)); }

ACC load_a(Row m, uint k) {
    return load(weight, m + k / TAPS * filter_size + k % TAPS);
}

// The output pixel that this tap contributes to; none if the stride skips it.
ACC load_b(Depth k, Column n) {
    ivec2 corner = n.at - k.at;
    ivec2 at = corner / STRIDE;
    bool reached = all(greaterThanEqual(corner, ivec2(0))) && at * STRIDE == corner;
    Pixel pixel = Pixel(n.plane + k.plane, reached ? at : ivec2(-1));
    return load_pixel(grad, pixel, out_size);
}

uint result_row(uint m) { return first_result + (first_in + m) * PLANES * in_plane; }

uint result_column(uint n) {
    uint image = n / in_plane;
    return first_plane(image, push.in_channels) * in_plane + (n - image * in_plane);
}

ACC result(uint m, ACC sum) {
    return HAS_BIAS != 0 && slice == 0 ? sum + load(bias, first_in + m) : sum;
}
