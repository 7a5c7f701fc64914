// Implicit GEMM operands of wgrad, the gradient by the weight, for matmul/*_body.glsl:
// out channels x (batch, out pixels) times (batch, out pixels) x (in channels, taps)

#include "conv/arguments.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    In grad;
    Out out_;
    CONV2D_SIZES
    uint chunks;
    uint plane_magic;
    uint plane_shift;
    uint width_magic;
    uint width_shift;
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
In x = push.x;
In grad = push.grad;
Out out_ = push.out_;
ivec2 in_size = ivec2(push.in_height, push.in_width);
uint in_plane = push.in_height * push.in_width;
uint out_plane = push.out_height * push.out_width;
uint out_width = push.out_width;
uint in_count = push.in_channels / push.groups;
uint out_count = push.out_channels / push.groups;
uint in_channels = push.in_channels;
uint out_channels = push.out_channels;
uint group = gl_WorkGroupID.z / push.chunks;
uint chunk = gl_WorkGroupID.z % push.chunks;
uvec2 plane_division = uvec2(push.plane_magic, push.plane_shift);
uvec2 width_division = uvec2(push.width_magic, push.width_shift);

#define Row uint
#define Column Pixel
#define Depth Pixel

uint product_rows() { return out_count; }
uint product_columns() { return in_count * TAPS; }

uvec2 product_depth() {
    uint count = push.batch * out_plane;
    uint share = (count - 1) / push.chunks + 1;
    return min(uvec2(chunk, chunk + 1) * share, uvec2(count));
}

Row row(uint m) { return (group * out_count + m) * PLANES * out_plane; }

Column column(uint n) {
    uint channel = group * in_count + n / TAPS;
    return Pixel(channel * PLANES * in_plane, tap_offset(n % TAPS) - PADDING);
}

Depth depth(uint k) {
    uint image = divide(k, plane_division.x, plane_division.y);
    uint p = k - image * out_plane;
    uint y = divide(p, width_division.x, width_division.y);
    uint plane = first_plane(image, in_channels);
    return Pixel(plane * in_plane, ivec2(y, p - y * out_width) * STRIDE);
}

ACC load_a(Row m, uint k) {
    uint image = divide(k, plane_division.x, plane_division.y);
    uint plane = first_plane(image, out_channels);
    return load(grad, m + plane * out_plane + (k - image * out_plane));
}

ACC load_b(Depth k, Column n) {
    return load_pixel(x, Pixel(n.plane + k.plane, n.at + k.at), in_size);
}

uint result_row(uint m) {
    uint channel = chunk * push.out_channels + group * out_count + m;
    return channel * product_columns();
}

uint result_column(uint n) { return n; }
ACC result(uint m, ACC sum) { return sum; }
