// Rank sort of keys within each workgroup: every one counts those that come before it
// grid    one invocation per number, linear
// in      keys (count) uint32
// out     pairs (count) of key and place, sorted in blocks; or, if LAST, places int32
// consts  LAST: there is one block
// source  rank sort; equal keys keep their order
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint LAST = 0;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    Pairs { uvec2 at[]; };
layout(push_constant, std430) uniform Push {
    IntIn keys;
    Pairs pairs;
    IntOut places;
    uint count;
} args;

shared uint key_of[gl_WorkGroupSize.x];

void main() {
    uint at = gl_LocalInvocationIndex;
    uint element = linear_invocation();
    uint count = args.count;
    Pairs pairs = args.pairs;
    IntOut places = args.places;
    uint first = element - at;
    uint size = first < count ? min(count - first, gl_WorkGroupSize.x) : 0;
    uint key = uint(args.keys.at[min(element, count - 1)]);
    key_of[at] = key;
    barrier();
    uint rank = 0;
    for (uint other = 0; other < size; ++other) {
        uint its = key_of[other];
        rank += its < key || (its == key && other < at) ? 1 : 0;
    }
    if (at >= size) return;
    if (LAST != 0) places.at[first + rank] = int(element);
    else pairs.at[first + rank] = uvec2(key, element);
}
