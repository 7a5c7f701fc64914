// The first elements of an order, of each chunk of the lines of (outer, count, inner)
// grid    one workgroup per chunk, linear over (outer, inner, chunks)
// in      x (outer, count, inner); with HAS_PLACES, places (outer, count, inner) of
//         int32: where they were along the dimension, in order among equals
// out     values, order: at most `most` of each chunk in order, side by side in lines of
//         `kept` with `inner_out` beside one another; order is of places
// consts  SLOTS: a power of two, at least `most`; DESCENDING; HAS_PLACES
// source  radix selection from the highest digit on; what equals the last that is wanted
//         is told apart by its place
// lint    atomic-in-loop: the digits of an invocation differ; atomics are in shared
// lint    divergent-barrier: rounds end by what all read from shared memory
// lint    bank-conflict: digits decide who counts where
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint SLOTS = 2;
layout(constant_id = 4) const uint DESCENDING = 0;
layout(constant_id = 5) const uint HAS_PLACES = 0;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    IntIn places;
    BitsOut values;
    PlaceOut order;
    uint lines;
    uint count;
    uint inner;
    uint chunks;
    uint chunk_size;
    uint most;
    uint kept;
    uint inner_out;
} push;

const uint DIGIT_BITS = 11;
const uint BINS = 1u << DIGIT_BITS;
const uint BATCH = 4;

shared KEY keys[SLOTS];
shared uint places[SLOTS];
shared uint bins[BINS];
shared uint sums[2][gl_WorkGroupSize.x];
shared uint chosen_bin, chosen_before, chosen_count, used;

#include "sort/bitonic.glsl"

#include "sort/digit_bound.glsl"

void main() {
    BitsIn x = push.x;
    uint count = push.count, inner = push.inner, chunks = push.chunks;
    uint self = gl_LocalInvocationIndex, workgroup = gl_WorkGroupSize.x;
    uint line = linear_workgroup() / chunks;
    if (line >= push.lines) return;
    uint chunk = linear_workgroup() - line * chunks;
    uint begin = chunk * push.chunk_size, size = min(push.chunk_size, count - begin);
    uint most = min(push.most, size), outer = line / inner;
    uint base = (outer * count + begin) * inner + (line - outer * inner);
    [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i) bound[i] = 0;

    uint need = most;
    bool is_found = need == size;
    while (!is_found) {
        next_word(32);
        for (uint bin = self; bin < BINS; bin += workgroup) bins[bin] = 0;
        barrier();
        uint width = min(DIGIT_BITS, shift);
        for (uint first = self; first < size; first += BATCH * workgroup) {
            KEY bits[BATCH];
            [[unroll]] for (uint i = 0; i < BATCH; ++i)
                bits[i] = load_bits(
                    x, base + min(first + i * workgroup, size - 1) * inner);
            [[unroll]] for (uint i = 0; i < BATCH; ++i) {
                uint place = first + i * workgroup;
                KEY key = sort_key(bits[i], DESCENDING != 0);
                if (place >= size || relation(key, place) != 0) continue;
                uint own = order_word(key, place, word);
                atomicAdd(bins[bitfieldExtract(
                    own, int(shift - width), int(width))], 1u);
            }
        }
        barrier();
        choose_bin(need);
        bound_by(chosen_bin, width);
        need -= chosen_before;
        is_found = need == chosen_count;
    }

    if (self == 0) used = 0;
    for (uint slot = self; slot < SLOTS; slot += workgroup) {
        keys[slot] = LAST_KEY;
        places[slot] = ~0u;
    }
    barrier();
    for (uint first = self; first < size; first += BATCH * workgroup) {
        KEY bits[BATCH];
        [[unroll]] for (uint i = 0; i < BATCH; ++i)
            bits[i] = load_bits(
                x, base + min(first + i * workgroup, size - 1) * inner);
        [[unroll]] for (uint i = 0; i < BATCH; ++i) {
            uint place = first + i * workgroup;
            KEY key = sort_key(bits[i], DESCENDING != 0);
            if (place >= size || relation(key, place) > 0) continue;
            uint slot = atomicAdd(used, 1u);
            keys[slot] = key;
            places[slot] = place;
        }
    }
    barrier();
    sort_slots(SLOTS, SLOTS);
    uint inner_out = push.inner_out, outer_out = line / inner_out;
    uint start = outer_out * push.kept + chunk * push.most;
    start = start * inner_out + (line - outer_out * inner_out);
    for (uint slot = self; slot < most; slot += workgroup) {
        uint own = places[slot], place = begin + own;
        if (HAS_PLACES != 0) place = uint(push.places.at[base + own * inner]);
        store_place(push.order, start + slot * inner_out, place);
        // Elements that are equal may differ in their bits.
        store_bits(push.values, start + slot * inner_out,
            load_bits(x, base + own * inner));
    }
}
