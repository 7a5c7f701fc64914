// NCHW to NHWC packing of images, in vectors of 16 bytes, padded with zeros
// grid    linear in tiles of VECTORS vectors of channels of LOCAL_X / VECTORS pixels
// in      x (images, channels, height, width), contiguous, or planes of volumes
// out     vectors (images, padded_height, padded_width, channel_vectors), and pixels of
//         zeros up to `padded_pixels`. With BF16X3, of float32, each vector is followed
//         by one of low halves, or with BLOCK that many pixels by their low halves
// consts  VECTORS, BLOCK; PLANES: see conv/volume.glsl; PADDED_PLANES: a volume has so
//         many in `vectors`, of which FRONT, or fewer than none, are in front of its own;
//         0: its own
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/volume.glsl"

layout(constant_id = 3) const uint VECTORS = 8;

layout(constant_id = 5) const uint PADDED_PLANES = 0;
layout(constant_id = 6) const uint FRONT = 0;

#ifdef BF16X3
#include "lib/bf16x3.glsl"
layout(constant_id = 4) const uint BLOCK = 0;
const uint WIDTH = 8;
#else
const uint WIDTH = 16 / BYTES;
#endif
const uint PIXELS = gl_WorkGroupSize.x / VECTORS;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Vectors { uvec4 at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Vectors vectors;
    uint pixels;  // of all images, padded
    uint padded_pixels;
    uint channels;
    uint height;
    uint width;
    uint top;  // lines of padding before an image; some are left out if it is negative
    uint left;
    uint padded_plane;
    uint padded_width;
    uint channel_vectors;
    uint tiles;  // adjacent tiles of vectors
    uint plane_magic;
    uint plane_shift;
    uint width_magic;
    uint width_shift;
} push;

// One pixel of padding avoids bank conflicts between channels.
shared uint tile[VECTORS * WIDTH * (PIXELS + 1)];

uint bits(uint index) {
#if BYTES == 2
    return uint(push.x.at[index]);
#else
    return floatBitsToUint(push.x.at[index]);
#endif
}

void main() {
    uint group = linear_workgroup();
    uint first_pixel = group / push.tiles * PIXELS;
    uint first_vector = group % push.tiles * VECTORS;
    if (first_pixel >= push.padded_pixels) return;

    // Neighbours load neighbouring pixels of a channel.
    uint own = gl_LocalInvocationIndex % PIXELS;
    uint pixel = first_pixel + own;
    uint image = divide(pixel, push.plane_magic, push.plane_shift);
    uint rest = pixel - image * push.padded_plane;
    uint line = divide(rest, push.width_magic, push.width_shift);
    uint y = line - push.top;
    uint x = rest - line * push.padded_width - push.left;
    bool inside = pixel < push.pixels && y < push.height && x < push.width;
    if (PADDED_PLANES != 0) {
        uint volume = image / max(PADDED_PLANES, 1);
        uint padded = image - volume * PADDED_PLANES - FRONT;
        inside = inside && padded < PLANES;
        image = volume * PLANES + padded;
    }
    uint plane = push.height * push.width;
    uint from = first_plane(image, push.channels) * plane + y * push.width + x;
    [[unroll]] for (uint i = 0; i < WIDTH; ++i) {
        uint channel = gl_LocalInvocationIndex / PIXELS + i * VECTORS;
        uint all = first_vector * WIDTH + channel;
        bool there = inside && all < push.channels;
        uint value = bits(there ? from + all * PLANES * plane : 0);
        tile[channel * (PIXELS + 1) + own] = there ? value : 0;
    }
    barrier();

    // Neighbours store neighbouring channels of a pixel.
    uint vector = gl_LocalInvocationIndex % VECTORS;
    uint at = gl_LocalInvocationIndex / VECTORS;
    uint channels[WIDTH];
    [[unroll]] for (uint i = 0; i < WIDTH; ++i)
        channels[i] = tile[(vector * WIDTH + i) * (PIXELS + 1) + at];
    uint own_pixel = first_pixel + at;
    uint own_vector = first_vector + vector;
    if (own_pixel >= push.padded_pixels || own_vector >= push.channel_vectors) return;
#ifdef BF16X3
    uvec4 high, low;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        float even = uintBitsToFloat(channels[2 * i]);
        float odd = uintBitsToFloat(channels[2 * i + 1]);
        high[i] = high_half(even) | high_half(odd) << 16;
        low[i] = low_half(even) | low_half(odd) << 16;
    }
    uint apart = BLOCK != 0 ? BLOCK * push.channel_vectors : 1;
    uint lines = BLOCK != 0 ? own_pixel + own_pixel / max(BLOCK, 1) * BLOCK : own_pixel;
    uint to = lines * push.channel_vectors + own_vector;
    to = BLOCK != 0 ? to : 2 * to;
    push.vectors.at[to] = high;
    push.vectors.at[to + apart] = low;
#else
    uvec4 packed;
    [[unroll]] for (uint i = 0; i < 4; ++i)
        packed[i] = WIDTH == 4 ? channels[i] : channels[2 * i % WIDTH]
            | channels[(2 * i + 1) % WIDTH] << 16;
    push.vectors.at[own_pixel * push.channel_vectors + own_vector] = packed;
#endif
}
