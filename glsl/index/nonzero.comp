// Stream compaction of a mask: flat offsets of its true elements, and their number
// grid    passes 0 and 2: one invocation per chunk, linear; pass 1: one workgroup
// in      mask (count) bool, as words
// out     starts (chunks) uint32: true elements, then those before each chunk;
//         places (count) int32, of which the first `total` are set; total (1) int32
// consts  PASS: 0 counts, 1 adds up, 2 writes
// source  prefix sum over chunks of 16 words
// lint    scalar-load: counts of chunks, whose share begins anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint PASS = 0;

const uint CHUNK_WORDS = 16;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Starts { uint at[]; };
layout(push_constant, std430) uniform Push {
    IntIn mask;
    Starts starts;
    IntOut places;
    IntOut total;
    uint count;
} args;

shared uint share_of[gl_WorkGroupSize.x];

// Exclusive prefix sum of chunk counts: each invocation sums a share, then those
// before.
void add_up(Starts starts, uint chunks) {
    uint at = gl_LocalInvocationIndex;
    uint share = (chunks - 1) / gl_WorkGroupSize.x + 1;
    uint first = min(at * share, chunks), end = min(first + share, chunks);
    uint sum = 0;
    for (uint chunk = first; chunk < end; ++chunk) sum += starts.at[chunk];
    share_of[at] = sum;
    barrier();
    uint before = 0;
    for (uint other = 0; other < at; ++other) before += share_of[other];
    if (at == gl_WorkGroupSize.x - 1) args.total.at[0] = int(before + sum);
    for (uint chunk = first; chunk < end; ++chunk) {
        uint trues = starts.at[chunk];
        starts.at[chunk] = before;
        before += trues;
    }
}

void main() {
    uint count = args.count;
    Starts starts = args.starts;
    IntIn mask = args.mask;
    IntOut places = args.places;
    uint chunks = (count - 1) / (4 * CHUNK_WORDS) + 1;
    if (PASS == 1) {
        add_up(starts, chunks);
        return;
    }
    uint chunk = linear_invocation();
    if (chunk >= chunks) return;
    uint end = PASS == 0 ? 0 : starts.at[chunk];
    uint words = (count - 1) / 4 + 1;
    for (uint k = 0; k < CHUNK_WORDS; ++k) {
        uint word = chunk * CHUNK_WORDS + k;
        uint bits = uint(mask.at[min(word, words - 1)]);
        for (uint lane = 0; lane < 4; ++lane) {
            uint element = 4 * word + lane;
            bool holds = element < count && (bits >> 8 * lane & 0xffu) != 0;
            if (PASS == 2 && holds) places.at[end] = int(element);
            end += holds ? 1 : 0;
        }
    }
    if (PASS == 0) starts.at[chunk] = end;
}
