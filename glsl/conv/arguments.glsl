// Convolution arguments, shared by the three NCHW kernels

#include "conv/volume.glsl"
#include "lib/window.glsl"

// Fields of each push block. Channels count all groups; the group is the z of the grid.
#define CONV2D_SIZES \
    uint batch; \
    uint in_channels; \
    uint in_height; \
    uint in_width; \
    uint out_channels; \
    uint out_height; \
    uint out_width; \
    uint groups;

// A pixel: the offset of its channel and image, and its coordinates (y, x).
struct Pixel {
    uint plane;
    ivec2 at;
};

// One element of a plane, 0 outside it.
ACC load_pixel(In image, Pixel pixel, ivec2 size) {
    bool inside = all(lessThan(uvec2(pixel.at), uvec2(size)));
    uint offset = pixel.plane + uint(pixel.at.x * size.y + pixel.at.y);
    ACC value = load(image, inside ? offset : 0);
    return inside ? value : ACC(0);
}
