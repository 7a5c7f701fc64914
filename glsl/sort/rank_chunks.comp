// The element of one rank of each line, a digit by each launch, by several workgroups
// grid    one workgroup per chunk of each line, linear over (lines, chunks)
// in      x (lines, count); rank, place_bits: as in sort/select_rank; states: zeros before
//         the first pass, STATE_WORDS for each line
// out     states; in the last pass values, order (lines)
// consts  PASS: 0 the first, 1 further ones, 2 the last, which stores; MISSING
// source  as sort/select_rows; the last workgroup of a line to finish sums up
// lint    atomic-in-loop: the digits of an invocation differ
// lint    divergent-barrier: the line's last workgroup alone goes on, all of it
// lint    bank-conflict: digits decide who counts where
// lint    scalar-load: the words of a state, once
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "sort/keys.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"
#include "sort/rank.glsl"

layout(constant_id = 3) const uint PASS = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict coherent buffer
    States { uint at[]; };

layout(push_constant, std430) uniform Push {
    BitsIn x;
    BitsOut values;
    PlaceOut order;
    States states;
    uint lines;
    uint count;
    uint chunks;
    uint chunk_size;
    uint rank;
    uint place_bits;
} push;

const uint DIGIT_BITS = 11;
const uint BINS = 1u << DIGIT_BITS;
const uint BATCH = 4;

// Words of a state before its bins.
const uint DONE = 0, NEED = 1, WORD = 2, SHIFT = 3, FOUND = 4, MISSED = 5, BOUND = 8;
const uint OWN_BINS = 16;
const uint STATE_WORDS = OWN_BINS + BINS;

shared uint bins[BINS];
shared uint sums[2][gl_WorkGroupSize.x];
shared uint chosen_bin, chosen_before, chosen_count, missing;
shared bool is_last;

#include "sort/digit_bound.glsl"

void main() {
    BitsIn x = push.x;
    States states = push.states;
    uint count = push.count, chunks = push.chunks;
    uint self = gl_LocalInvocationIndex, workgroup = gl_WorkGroupSize.x;
    uint line = linear_workgroup() / chunks;
    if (line >= push.lines) return;
    uint chunk = linear_workgroup() - line * chunks, begin = chunk * push.chunk_size;
    uint end = min(begin + push.chunk_size, count), base = line * count;
    uint own = line * STATE_WORDS;
    if (PASS == 1 && states.at[own + FOUND] != 0) return;
    [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i) bound[i] = 0;
    if (PASS != 0) {
        word = states.at[own + WORD];
        shift = states.at[own + SHIFT];
        [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i)
            bound[i] = states.at[own + BOUND + i];
    }
    if (PASS != 2) next_word(push.place_bits);
    uint width = min(DIGIT_BITS, shift), from = shift - width, missed = 0;
    for (uint bin = self; bin < BINS; bin += workgroup) bins[bin] = 0;
    if (self == 0) missing = 0;
    barrier();
    for (uint first = begin + self; first < end; first += BATCH * workgroup) {
        KEY bits[BATCH];
        [[unroll]] for (uint i = 0; i < BATCH; ++i)
            bits[i] = load_bits(x, base + min(first + i * workgroup, end - 1));
        [[unroll]] for (uint i = 0; i < BATCH; ++i) {
            uint place = first + i * workgroup;
            KEY key = sort_key(bits[i], false);
            if (place >= end) continue;
            if (PASS == 0 && MISSING != 0 && key == LAST_KEY) ++missed;
            if (relation(key, place) != 0) continue;
            if (PASS != 2) {
                atomicAdd(bins[bitfieldExtract(
                    order_word(key, place, word), int(from), int(width))], 1u);
            } else {
                store_place(push.order, line, place);
                store_bits(push.values, line, bits[i]);
            }
        }
    }
    if (PASS == 2) return;
    if (missed > 0) atomicAdd(missing, missed);
    barrier();
    for (uint bin = self; bin < BINS; bin += workgroup)
        if (bins[bin] > 0) atomicAdd(states.at[own + OWN_BINS + bin], bins[bin]);
    if (self == 0 && missing > 0) atomicAdd(states.at[own + MISSED], missing);
    memoryBarrierBuffer();
    barrier();
    if (self == 0) is_last = atomicAdd(states.at[own + DONE], 1u) + 1 == chunks;
    barrier();
    if (!is_last) return;
    memoryBarrierBuffer();
    for (uint bin = self; bin < BINS; bin += workgroup) {
        bins[bin] = states.at[own + OWN_BINS + bin];
        states.at[own + OWN_BINS + bin] = 0;
    }
    uint need = states.at[own + NEED];
    if (PASS == 0) need = rank_of(push.rank, count, states.at[own + MISSED]) + 1;
    barrier();
    choose_bin(need);
    bound_by(chosen_bin, width);
    if (self > 0) return;
    states.at[own + DONE] = 0;
    states.at[own + NEED] = need - chosen_before;
    states.at[own + WORD] = word;
    states.at[own + SHIFT] = shift;
    states.at[own + FOUND] = uint(chosen_count == 1);
    [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i)
        states.at[own + BOUND + i] = bound[i];
}
