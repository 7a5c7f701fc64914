// Both extremes of a strided tensor over dimensions
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, as reduce/body.glsl indexes it, or states with the macro MERGE
// out     least, greatest (outputs) T; with the macro PARTIAL instead states (chunks,
//         outputs)
// consts  those of lib/group_reduce.glsl and reduce/body.glsl
// source  NumPy's rules: NaN is both greatest and least
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

struct State {
    ACC least;
    ACC greatest;
};

State merge(State old, State new) {
    bool less = new.least < old.least || new.least != new.least;
    bool more = new.greatest > old.greatest || new.greatest != new.greatest;
    return State(less ? new.least : old.least, more ? new.greatest : old.greatest);
}

#define TURNS
#define RESULTS Out least; Out greatest;
#include "reduce/partial_states.glsl"
#include "reduce/body.glsl"

#ifndef MERGE
State element(ACC value, uint index) { return State(value, value); }
#endif

State start(uint offset, uint index) { return read(offset, index); }

#ifdef PARTIAL
void finish(uint place, State state) { push.states.at[place] = state; }
#else
void finish(uint place, State state) {
    store(push.least, place, state.least);
    store(push.greatest, place, state.greatest);
}
#endif
