// Reduction body over a strided tensor: each output merges the states of its elements
//
// The includer defines, before: State; `State merge(State, State)`; RESULTS, its own
// fields of the push block; and SOURCE, the buffer type of x, which is indexed by up to
// 4 kept and 4 reduced dimensions, innermost first, strides >= 0. After: the functions
// declared here.
//
// FOLLOW may be quicker than `merge` where the new state is of an element that comes after
// all of the old: not where states are merged, which can be of interleaved elements.
//
// With the macro QUADS loads are vec4: the elements of an output are contiguous, or runs
// of contiguous ones, and their offset, all other strides and, of more than one output or
// run, the number of those of a run are multiples of four; then MERGE is not defined. With
// APART too they are unaligned, with scalar loads in the
// same summation order. With TURNS too, chunks are interleaved, so that concurrent
// loads are adjacent, and four elements share a test: quicker if `merge` is short (sums
// of 64 Mi floats on an NVIDIA H200, driver 580.159.04, 2026-11-21: 0.065 ms, not
// 0.066), and slower if it is long (argmax of 8192 x 8192: 0.093, not 0.079).
// With ONCE there is one output, one workgroup per chunk, and no second dispatch: the
// last workgroup to finish merges the partial states of all, in the order of the
// chunks, whichever comes last. It needs one word of `passed` to be 0, and leaves it
// so.
// With COLUMN_QUADS each invocation takes four adjacent outputs, whose elements are one
// vec4: their number, their offset and all strides but that between outputs, which is 1,
// are multiples of four; with APART as above. Not with QUADS, MERGE or ONCE.
// With QUADS and BLOCK the includer has `State over_block(State old, ACC4 values[], uint
// quads)`, which merges the first so many vec4 into a state at once: in fewer instructions
// than one element after the other. It has BLOCK only with QUADS and without MERGE.
// With PAIRED, and a buffer `y` among RESULTS that is laid out as x is, elements are the
// products of both; not with UNIFORM_LOADS.
// With UNIFORM_LOADS outputs are contiguous runs, and a workgroup is a subgroup of LANES
// invocations, 4 or 8, that takes ROUNDS elements each, of a run of at least as many;
// every invocation stores a state. For llvmpipe: see lib/uniform_index.glsl.
// lint    integer-division: once for each output, before the loop over elements

#include "lib/group_reduce.glsl"

layout(constant_id = 6) const uint KEPT_DIMS = 1;
layout(constant_id = 7) const uint REDUCED_DIMS = 1;

const uint ACCUMULATORS = 4;

#ifdef MERGE
#undef FOLLOW
#endif
#ifndef FOLLOW
#define FOLLOW merge
#endif

#if defined(QUADS) || defined(COLUMN_QUADS)
#extension GL_EXT_control_flow_attributes : require
#include "lib/vec4_io.glsl"

// vec4 loads in flight per invocation.
#ifndef IN_FLIGHT
#define IN_FLIGHT 4
#endif
#endif

#ifdef UNIFORM_LOADS
#extension GL_EXT_control_flow_attributes : require
#include "lib/uniform_index.glsl"
#endif

#ifdef ONCE
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Passed {
    uint done;
    State at[];
};
#endif

// The outermost dimension needs no size; magic and shift are those of `divide`.
layout(push_constant, std430) uniform Push {
    SOURCE x;
#ifdef ONCE
    Passed passed;
#endif
    RESULTS
    uint outputs;
    uint count;
#ifdef UNIFORM_LOADS
    uint apart;
    uint digit[8];
#else
    uint kept_size[3];
    uint kept_stride[4];
    uint reduced_size[3];
    uint reduced_magic[3];
    uint reduced_shift[3];
    uint reduced_stride[4];
#endif
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
SOURCE x = push.x;
#ifdef PAIRED
SOURCE y = push.y;
#define ELEMENT_AT(offset) (load(x, offset) * load(y, offset))
#else
#define ELEMENT_AT(offset) load(x, offset)
#endif
#ifndef UNIFORM_LOADS
uint reduced_size[3] = push.reduced_size;
uint reduced_magic[3] = push.reduced_magic;
uint reduced_shift[3] = push.reduced_shift;
uint reduced_stride[4] = push.reduced_stride;
#endif

// The state of no element, or of an element that may be merged again.
State start(uint offset, uint index);
#ifdef MERGE
State read(uint offset, uint index) { return x.at[offset]; }
#else
// The state of an element, which has a number within its output.
State element(ACC value, uint index);
State read(uint offset, uint index) { return element(ELEMENT_AT(offset), index); }
#endif
#ifdef BLOCK
State over_block(State old, ACC4 values[IN_FLIGHT], uint quads);
#endif
// Store what all elements of an output give, or those of a chunk.
void finish(uint place, State state);

#ifndef UNIFORM_LOADS
uint kept_offset(uint index) {
    uint offset = 0;
    for (uint dim = 0; dim + 1 < KEPT_DIMS; ++dim) {
        offset += index % push.kept_size[dim] * push.kept_stride[dim];
        index /= push.kept_size[dim];
    }
    return offset + index * push.kept_stride[KEPT_DIMS - 1];
}

uint reduced_offset(uint index) {
    uint offset = 0;
    for (uint dim = 0; dim + 1 < REDUCED_DIMS; ++dim) {
        uint rest = divide(index, reduced_magic[dim], reduced_shift[dim]);
        offset += (index - rest * reduced_size[dim]) * reduced_stride[dim];
        index = rest;
    }
    return offset + index * reduced_stride[REDUCED_DIMS - 1];
}

#ifdef QUADS
// Of the first of four elements: they are contiguous.
uint quad_offset(uint index) { return REDUCED_DIMS == 1 ? index : reduced_offset(index); }
#endif

#endif

#ifdef APART
ACC4 load_apart(uint offset) {
    return ACC4(ELEMENT_AT(offset), ELEMENT_AT(offset + 1), ELEMENT_AT(offset + 2),
                ELEMENT_AT(offset + 3));
}
#define QUAD_AT(offset) load_apart(offset)
#elif defined(PAIRED)
#define QUAD_AT(offset)                                                                \
    (load_quad(quads, (offset) / 4) * load_quad(other_quads, (offset) / 4))
#else
#define QUAD_AT(offset) load_quad(quads, (offset) / 4)
#endif

#ifdef ONCE
shared bool is_last;

// Merged state of all chunks, in invocation 0 of the last workgroup to finish.
State over_chunks(State found, State none, uint part) {
    Passed passed = push.passed;
    uint chunks = gl_NumWorkGroups.z;
    if (part == 0) {
        passed.at[gl_WorkGroupID.z] = found;
        memoryBarrierBuffer();
        is_last = atomicAdd(passed.done, 1) + 1 == chunks;
    }
    barrier();
    if (!is_last) return none;
    memoryBarrierBuffer();
    for (uint i = part; i < chunks; i += GROUP) none = merge(none, passed.at[i]);
    if (part == 0) passed.done = 0;
    return over_group(none, 0, part);
}
#endif

#ifdef UNIFORM_LOADS
// A variable cannot be smaller.
#if BYTES < 4
#define WHOLE(stored) uint(stored)
#define VALUE_OF(whole) DECODE(whole)
#define STORED uint
#else
#define WHOLE(stored) stored
#define VALUE_OF(whole) whole
#define STORED ACC
#endif

void main() {
    uint output_ = min(linear_workgroup(), push.outputs - 1);
    uint lane = gl_LocalInvocationIndex;
    // The last ones of a run take elements of those before too, which do not count.
    uint begin = gl_WorkGroupID.z * LANES * ROUNDS;
    uint from = min(begin, push.count - LANES * ROUNDS);
    uint place = output_ * push.apart + from;
    place = TOLD(push.digit, place);
    STORED stored[ROUNDS];
    [[unroll]] for (uint round_ = 0; round_ < ROUNDS; ++round_) {
        stored[round_] = WHOLE(x.at[place + round_ * LANES]);
        [[unroll]] for (uint number = 1; number < LANES; ++number) {
            STORED other = WHOLE(x.at[place + round_ * LANES + number]);
            stored[round_] = lane == number ? other : stored[round_];
        }
    }
    State state = start(place, from);
    [[unroll]] for (uint round_ = 0; round_ < ROUNDS; ++round_) {
        uint index = from + round_ * LANES + lane;
        State next = FOLLOW(state, element(VALUE_OF(stored[round_]), index));
        if (index >= begin) state = next;
    }
    finish((gl_WorkGroupID.z * LANES + lane) * push.outputs + output_, state);
}
#elif defined(COLUMN_QUADS)
void main() {
    uint slot = output_slot(), part = group_part();
    uint output_ = 4 * (linear_workgroup() * OUTPUTS + slot);
    uint share = (push.count - 1) / gl_NumWorkGroups.z + 1;
    uint begin = min(gl_WorkGroupID.z * share, push.count - 1);
    uint end = min(gl_WorkGroupID.z * share + share, push.count);
    uint base = kept_offset(min(output_, push.outputs - 4));
#ifndef APART
    QuadsIn quads = QuadsIn(x);
#ifdef PAIRED
    QuadsIn other_quads = QuadsIn(y);
#endif
#endif
    State state[4];
    [[unroll]] for (uint i = 0; i < 4; ++i)
        state[i] = start(base + reduced_offset(begin) + i, begin);
    for (uint index = gl_WorkGroupID.z * share + part; index < end;
         index += GROUP * IN_FLIGHT) {
        ACC4 values[IN_FLIGHT];
        [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k)
            values[k] = QUAD_AT(base + reduced_offset(min(index + k * GROUP, end - 1)));
        [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k) {
            uint mine = index + k * GROUP;
            if (mine < end)
                [[unroll]] for (uint i = 0; i < 4; ++i)
                    state[i] = FOLLOW(state[i], element(values[k][i], mine));
        }
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (i > 0) barrier();
        State all = over_group(state[i], slot, part);
        if (part == 0 && output_ < push.outputs)
            finish(gl_WorkGroupID.z * push.outputs + output_ + i, all);
    }
}
#else
void main() {
    uint slot = output_slot(), part = group_part();
    uint output_ = linear_workgroup() * OUTPUTS + slot;
#if defined(QUADS) && defined(TURNS)
    uint turn = GROUP * 4 * IN_FLIGHT, end = push.count;
    uint begin = min(gl_WorkGroupID.z * turn, push.count - 1);
#else
    uint share = (push.count - 1) / gl_NumWorkGroups.z + 1;
#ifdef QUADS
    share = (share + 3) / 4 * 4;
#endif
    uint begin = min(gl_WorkGroupID.z * share, push.count - 1);
    uint end = min(gl_WorkGroupID.z * share + share, push.count);
#endif
    uint base = kept_offset(min(output_, push.outputs - 1));
#ifdef QUADS
    uint last = end;
    end &= ~3u;
#endif

    State first = start(base + reduced_offset(begin), begin);
    State state[ACCUMULATORS];
    for (uint i = 0; i < ACCUMULATORS; ++i) state[i] = first;
#ifdef QUADS
#ifndef APART
    QuadsIn quads = QuadsIn(x);
#ifdef PAIRED
    QuadsIn other_quads = QuadsIn(y);
#endif
#endif
#ifdef TURNS
    for (uint index = gl_WorkGroupID.z * turn + 4 * part; index < end;
         index += gl_NumWorkGroups.z * turn) {
        ACC4 values[IN_FLIGHT];
        [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k)
            values[k] = QUAD_AT(base + quad_offset(min(index + k * 4 * GROUP, end - 4)));
        [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k) {
            uint mine = index + k * 4 * GROUP;
            if (mine < end)
                [[unroll]] for (uint i = 0; i < ACCUMULATORS; ++i)
                    state[i] = FOLLOW(state[i], element(values[k][i], mine + i));
        }
    }
#else
    for (uint index = gl_WorkGroupID.z * share + 4 * part; index < end;
         index += GROUP * 4 * IN_FLIGHT) {
        ACC4 values[IN_FLIGHT];
        for (uint k = 0; k < IN_FLIGHT; ++k)
            values[k] = QUAD_AT(base + quad_offset(min(index + k * 4 * GROUP, end - 4)));
#ifdef BLOCK
        state[0] = over_block(
            state[0], values, min((end - 1 - index) / (4 * GROUP) + 1, IN_FLIGHT));
        continue;
#endif
        for (uint k = 0; k < IN_FLIGHT; ++k)
            for (uint i = 0; i < ACCUMULATORS; ++i) {
                uint mine = index + k * 4 * GROUP + i;
                if (mine < end) state[i] = FOLLOW(state[i], element(values[k][i], mine));
            }
    }
#endif
    // Up to three that follow the last vec4
#ifdef TURNS
    if (gl_WorkGroupID.z != 0) last = end;
#endif
    if (part == 0)
        for (uint mine = end; mine < last; ++mine)
            state[0] = FOLLOW(
                state[0], element(ELEMENT_AT(base + quad_offset(mine)), mine));
#else
    for (uint index = gl_WorkGroupID.z * share + part; index < end;
         index += GROUP * ACCUMULATORS)
        for (uint i = 0; i < ACCUMULATORS; ++i) {
            uint mine = index + i * GROUP;
            State next = read(base + reduced_offset(min(mine, end - 1)), mine);
            if (mine < end) state[i] = FOLLOW(state[i], next);
        }
#endif
    for (uint i = 1; i < ACCUMULATORS; ++i) state[0] = merge(state[0], state[i]);
    State all = over_group(state[0], slot, part);
#ifdef ONCE
    all = over_chunks(all, first, part);
    if (part == 0 && is_last) finish(0, all);
    return;
#endif
    if (part == 0 && output_ < push.outputs)
        finish(gl_WorkGroupID.z * push.outputs + output_, all);
}
#endif
