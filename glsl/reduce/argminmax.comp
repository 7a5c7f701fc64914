// Argmax or argmin of a strided tensor over dimensions, with the extreme
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, as reduce/body.glsl indexes it, or states with the macro MERGE
// out     values (outputs) T; indices (outputs) places, the first of the best; with the
//         macro PARTIAL instead states (chunks, outputs)
// consts  GREATEST; VALUES, INDICES: what is stored; those of lib/group_reduce.glsl and
//         reduce/body.glsl
// source  NumPy's rules: NaN is both greatest and least
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"

layout(constant_id = 3) const uint GREATEST = 1;
layout(constant_id = 8) const uint VALUES = 1;
layout(constant_id = 9) const uint INDICES = 1;

struct State {
    ACC value;
    uint index;
};

bool replaces(State old, State new) {
    bool old_nan = old.value != old.value;
    bool new_nan = new.value != new.value;
    bool better = GREATEST != 0 ? new.value > old.value : new.value < old.value;
    bool equal = new.value == old.value || (old_nan && new_nan);
    return (!old_nan && (new_nan || better)) || (equal && new.index < old.index);
}

State merge(State old, State new) {
    bool replace = replaces(old, new);
    return State(replace ? new.value : old.value, replace ? new.index : old.index);
}

// The same where the new one comes later than all of the old.
State follow(State old, State new) {
    bool behind = GREATEST != 0 ? new.value <= old.value : new.value >= old.value;
    bool keep = behind || old.value != old.value;
    return State(keep ? old.value : new.value, keep ? old.index : new.index);
}

#define FOLLOW follow
#define RESULTS Out values; PlaceOut indices;
#include "reduce/partial_states.glsl"
#include "reduce/body.glsl"

#ifndef MERGE
State element(ACC value, uint index) { return State(value, index); }
#endif

State start(uint offset, uint index) { return read(offset, index); }

#ifdef PARTIAL
void finish(uint place, State state) { push.states.at[place] = state; }
#else
void finish(uint place, State state) {
    if (VALUES != 0) store(push.values, place, state.value);
    if (INDICES != 0) store_place(push.indices, place, state.index);
}
#endif
