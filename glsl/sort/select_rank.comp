// The element of one rank of each line, by radix selection
// grid    one workgroup per line, linear
// in      x (lines, count); rank: from 0, as sort/rank.glsl takes it; place_bits: of
//         count - 1
// out     values, order (lines)
// consts  ITEMS: elements of a line that each invocation holds, 0 where they are too many
//         and are read again; DIGIT_BITS; MISSING
// source  as sort/select_rows
// lint    atomic-in-loop: the digits of an invocation differ; atomics are in shared
// lint    divergent-barrier: rounds end by what all read from shared memory
// lint    bank-conflict: digits decide who counts where
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"
#include "sort/rank.glsl"

layout(constant_id = 3) const uint ITEMS = 1;
layout(constant_id = 4) const uint DIGIT_BITS = 11;

layout(push_constant, std430) uniform Push {
    BitsIn x;
    BitsOut values;
    PlaceOut order;
    uint lines;
    uint count;
    uint rank;
    uint place_bits;
} push;

const uint BINS = 1u << DIGIT_BITS;
const uint BATCH = 4;

shared uint bins[BINS];
shared uint sums[2][gl_WorkGroupSize.x];
shared uint chosen_bin, chosen_before, chosen_count, missing;

#include "sort/digit_bound.glsl"

// Runs BODY with `key` and `place` for each element of the invocation.
#define EACH_ELEMENT(BODY)                                                             \
    if (ITEMS > 0) {                                                                   \
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) {                                  \
            uint place = i * workgroup + self;                                         \
            KEY key = held[i];                                                         \
            if (place < count) { BODY }                                                \
        }                                                                              \
    } else {                                                                           \
        for (uint first = self; first < count; first += BATCH * workgroup) {           \
            KEY bits[BATCH];                                                           \
            [[unroll]] for (uint i = 0; i < BATCH; ++i)                                \
                bits[i] = load_bits(x, base + min(first + i * workgroup, count - 1));  \
            [[unroll]] for (uint i = 0; i < BATCH; ++i) {                              \
                uint place = first + i * workgroup;                                    \
                KEY key = sort_key(bits[i], false);                                    \
                if (place < count) { BODY }                                            \
            }                                                                          \
        }                                                                              \
    }

void main() {
    BitsIn x = push.x;
    uint count = push.count, place_bits = push.place_bits;
    uint self = gl_LocalInvocationIndex, workgroup = gl_WorkGroupSize.x;
    uint line = linear_workgroup();
    if (line >= push.lines) return;
    uint base = line * count;
    KEY held[ITEMS > 0 ? ITEMS : 1];
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        held[i] = sort_key(
            load_bits(x, base + min(i * workgroup + self, count - 1)), false);
    [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i) bound[i] = 0;

    if (MISSING != 0) {
        if (self == 0) missing = 0;
        barrier();
        uint own = 0;
        EACH_ELEMENT(if (key == LAST_KEY) ++own;)
        if (own > 0) atomicAdd(missing, own);
        barrier();
    }
    uint need = rank_of(push.rank, count, MISSING != 0 ? missing : 0u) + 1;
    bool is_found = count == 1;
    while (!is_found) {
        next_word(place_bits);
        for (uint bin = self; bin < BINS; bin += workgroup) bins[bin] = 0;
        barrier();
        uint width = min(DIGIT_BITS, shift), from = shift - width;
        EACH_ELEMENT(
            if (relation(key, place) == 0)
                atomicAdd(bins[bitfieldExtract(
                    order_word(key, place, word), int(from), int(width))], 1u);
        )
        barrier();
        choose_bin(need);
        bound_by(chosen_bin, width);
        need -= chosen_before;
        is_found = chosen_count == 1;
    }
    EACH_ELEMENT(
        if (relation(key, place) == 0) {
            store_place(push.order, line, place);
            // Elements that are equal may differ in their bits.
            store_bits(push.values, line, load_bits(x, base + place));
        }
    )
}
