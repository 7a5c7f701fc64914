// How often each value of a digit occurs in each chunk of the lines of a radix sort
// grid    one invocation per chunk, linear over (lines, tiles)
// in      x (outer, count, inner), whose lines are over (outer, inner); range
// out     counts (lines, 256, tiles), where tiles are the chunks of a line
// consts  CHUNK: elements; DESCENDING; RANGED
// source  counting sort; for software devices, whose invocations share nothing
#version 460
#extension GL_EXT_buffer_reference : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "sort/chunk_counts.glsl"
#include "sort/key_range.glsl"

layout(push_constant, std430) uniform Push {
    BitsIn x;
    Counts counts;
    KeyRange range;
    uint lines;
    uint count;
    uint inner;
    uint tiles;
    uint shift;
} push;

void main() {
    BitsIn x = push.x;
    Counts counts = push.counts;
    uint count = push.count, inner = push.inner, tiles = push.tiles, shift = push.shift;
    uint line = linear_invocation() / tiles;
    KeyRange range = push.range;
    if (line >= push.lines || !has_digit(range, shift)) return;
    KEY least = least_of(range);
    uint tile = linear_invocation() - line * tiles;
    uint own = line * BINS * tiles + tile;
    for (uint bin = 0; bin < BINS; ++bin) counts.at[own + bin * tiles] = 0;
    uint outer = line / inner;
    uint place = outer * count * inner + (line - outer * inner) + tile * CHUNK * inner;
    uint size = min(CHUNK, count - tile * CHUNK);
    for (uint i = 0; i < size; ++i) {
        KEY key = above(sort_key(load_bits(x, place), DESCENDING != 0), least);
        uint bin = key_bits(key, shift, DIGIT_BITS);
        counts.at[own + bin * tiles] += 1;
        place += inner;
    }
}
