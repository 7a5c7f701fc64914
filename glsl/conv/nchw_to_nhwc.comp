// NCHW to NHWC packing of images, in vectors of 16 bytes, padded with zeros
// grid    linear in tiles of VECTORS vectors of channels of LOCAL_X / VECTORS pixels
// in      x (images, channels, height, width), contiguous, or planes of volumes
// out     vectors (images, padded_height, padded_width, channel_vectors), and pixels of
//         zeros up to `padded_pixels`. With SCALED they are float32 scaled to float16,
//         by the largest magnitudes in (groups, SLICES) of each volume, or each channel;
//         exponents (groups), of those scales: see lib/float16_scale.glsl
// consts  VECTORS; PLANES: see conv/volume.glsl; PADDED_PLANES: a volume has so many in
//         `vectors`, of which FRONT, or fewer than none, are in front of its own; 0: its
//         own; SLICES; BY_CHANNEL: channels have scales, not volumes
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

#ifdef SCALED
layout(constant_id = 7) const uint BY_CHANNEL = 0;
#include "conv/scale_of_group.glsl"
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
#ifdef SCALED
    Largest largest;
    Exponents exponents;
#endif
} push;

// One pixel of padding avoids bank conflicts between channels.
shared uint tile[VECTORS * WIDTH * (PIXELS + 1)];
#ifdef SCALED
shared int channel_exponents[VECTORS * WIDTH];
#endif

uint bits(uint index) {
#if BYTES == 2
    return uint(push.x.at[index]);
#else
    return floatBitsToUint(push.x.at[index]);
#endif
}

void main() {
    uint workgroup = linear_workgroup();
    uint first_pixel = workgroup / push.tiles * PIXELS;
    uint first_vector = workgroup % push.tiles * VECTORS;
    if (first_pixel >= push.padded_pixels) return;

#ifdef SCALED
    if (BY_CHANNEL != 0) {
        for (uint channel = gl_LocalInvocationIndex; channel < VECTORS * WIDTH;
             channel += gl_WorkGroupSize.x) {
            uint all = first_vector * WIDTH + channel;
            bool exists = all < push.channels;
            int exponent = exists ? exponent_of_group(push.largest, all) : 0;
            channel_exponents[channel] = exponent;
            if (exists && first_pixel == 0) push.exponents.at[all] = exponent;
        }
        barrier();
    }
#endif

    // Neighbours load neighbouring pixels of a channel.
    uint own = gl_LocalInvocationIndex % PIXELS;
    uint pixel = first_pixel + own;
    uint image = divide(pixel, push.plane_magic, push.plane_shift);
    uint rest = pixel - image * push.padded_plane;
    uint line = divide(rest, push.width_magic, push.width_shift);
    uint y = line - push.top;
    uint x = rest - line * push.padded_width - push.left;
    bool inside = pixel < push.pixels && y < push.height && x < push.width;
#ifdef SCALED
    const uint OWN_PLANES = PADDED_PLANES != 0 ? PADDED_PLANES : PLANES;
    uint group = image / OWN_PLANES;
    int exponent = 0;
    if (BY_CHANNEL == 0 && pixel < push.pixels) {
        exponent = exponent_of_group(push.largest, group);
        bool first = first_vector == 0 && gl_LocalInvocationIndex < PIXELS;
        if (first && rest == 0 && image == group * OWN_PLANES)
            push.exponents.at[group] = exponent;
    }
#endif
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
#ifdef SCALED
        if (BY_CHANNEL != 0) exponent = channel_exponents[channel];
        value = floatBitsToUint(uintBitsToFloat(value) * power_of_two(-exponent));
#endif
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
    uvec4 packed;
#ifdef SCALED
    [[unroll]] for (uint i = 0; i < 4; ++i)
        packed[i] = pack_float16(
            uintBitsToFloat(channels[2 * i]), uintBitsToFloat(channels[2 * i + 1]));
#else
    [[unroll]] for (uint i = 0; i < 4; ++i)
        packed[i] = WIDTH == 4 ? channels[i] : channels[2 * i % WIDTH]
            | channels[(2 * i + 1) % WIDTH] << 16;
#endif
    push.vectors.at[own_pixel * push.channel_vectors + own_vector] = packed;
}
