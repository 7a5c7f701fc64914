// Winograd transform of images: the right operands of products, one for each point
// grid    linear in elements of one operand
// in      x (images, channels, height, width), zeros around it
// out     out_ (points, depth, pitch): channels of each segment of each group, then zeros;
//         zeros from `tiles` on
// consts  those of conv/winograd.glsl, conv/winograd_segments.glsl and
//         conv/winograd_tiles.glsl; EVALUATED: tiles are those of x itself, as the gradient
//         by filters takes the gradient of results, in place of the windows of results
// source  conv/winograd.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/winograd.glsl"
#include "conv/winograd_segments.glsl"
#include "conv/winograd_tiles.glsl"

layout(constant_id = 7) const uint EVALUATED = 0;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint depth;
    uint channels;  // of an image
    uint top;  // lines of zeros before an image; some are left out if it is negative
    uint left;
    uint pitch_magic;
    uint pitch_shift;
    uint own_depth;  // of a segment of a group
    uint own_magic;
    uint own_shift;
    TILE_FIELDS
} push;

const uint SEEN_DOWN = EVALUATED != 0 ? TILE_DOWN : POINTS_DOWN;
const uint SEEN_ACROSS = EVALUATED != 0 ? TILE_ACROSS : POINTS_ACROSS;

void transform(uint points, uint seen, inout float line[MOST]) {
    if (EVALUATED != 0) {
        evaluate(points, seen, line);
    } else {
        transform_window(points, line);
    }
}

void main() {
    uint number = linear_invocation(), plane = push.depth * push.pitch;
    if (number >= plane) return;
    In images = push.x;
    Out out_ = push.out_;
    uint line = divide(number, push.pitch_magic, push.pitch_shift);
    uint own = number - line * push.pitch;
    uvec2 part = segment_of(line, push.own_depth, push.own_magic, push.own_shift);
    uint group = part.x / SEGMENTS;
    uint channel = group * push.own_depth + part.y;
    uvec2 apart = first_tap(part.x - group * SEGMENTS);
    bool there = own < push.tiles && channel < push.channels;
    uvec3 place = PLACE_OF(push.first + own);
    uint first = first_plane(place.x, push.channels) + channel * PLANES;
    uint start = first * push.height * push.width;
    uint top = place.y - push.top + apart.x * DILATION_DOWN;
    uint left = place.z - push.left + apart.y * DILATION_ACROSS;
    float values[POINTS_DOWN][MOST];
    [[unroll]] for (uint j = 0; j < SEEN_ACROSS; ++j) {
        float line[MOST];
        uint x = left + j * DILATION_ACROSS;
        [[unroll]] for (uint i = 0; i < SEEN_DOWN; ++i) {
            uint y = top + i * DILATION_DOWN;
            bool inside = there && y < push.height && x < push.width;
            uint from = start + y * push.width + x;
            float value = load(images, inside ? from : 0);
            line[i] = inside ? value : 0.0;
        }
        transform(POINTS_DOWN, SEEN_DOWN, line);
        [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) values[i][j] = line[i];
    }
    [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i) {
        transform(POINTS_ACROSS, SEEN_ACROSS, values[i]);
        [[unroll]] for (uint j = 0; j < POINTS_ACROSS; ++j)
            store(out_, (i * POINTS_ACROSS + j) * plane + number, values[i][j]);
    }
}
