// Variance of a strided tensor over dimensions: squared distances from the mean, scaled
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, as reduce/body.glsl indexes it, or states with the macro MERGE
// out     out_ (outputs) T, times scale; with the macro MOMENTS mean_ and out_ (outputs) of
//         ACC; with the macro PARTIAL instead states (chunks, outputs)
// consts  those of lib/group_reduce.glsl and reduce/body.glsl
// source  Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for
//         Computing Sample Variances, 1979
// lint    integer-division: only where elements are integers, which nobody asks for
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

struct State {
    ACC mean;
    ACC squares;
    ACC count;
};

State merge(State old, State new) {
    ACC count = old.count + new.count;
    ACC share = count > ACC(0) ? new.count / count : ACC(0);
    ACC apart = new.mean - old.mean;
    ACC squares = old.squares + new.squares + apart * apart * (old.count * share);
    return State(old.mean + apart * share, squares, count);
}

#ifdef MOMENTS
#define RESULTS AccOut mean_; AccOut out_; ACC scale;
#else
#define RESULTS Out out_; ACC scale;
#endif
#include "reduce/partial_states.glsl"
#ifdef QUADS
#define BLOCK
#endif
#include "reduce/body.glsl"

#ifdef BLOCK
// The mean of a block first, and squares of differences from it: nothing cancels.
State over_block(State old, ACC4 values[IN_FLIGHT], uint quads) {
    ACC4 sums = ACC4(0), squares = ACC4(0);
    [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k)
        sums += k < quads ? values[k] : ACC4(0);
    ACC count = ACC(4 * quads);
    ACC mean = (sums.x + sums.y + sums.z + sums.w) / count;
    [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k) {
        ACC4 apart = k < quads ? values[k] - mean : ACC4(0);
        squares = fma(apart, apart, squares);
    }
    return merge(old, State(mean, squares.x + squares.y + squares.z + squares.w, count));
}
#endif

#ifndef MERGE
State element(ACC value, uint index) { return State(value, ACC(0), ACC(1)); }
#endif

// Without an element yet, but near those that follow.
State start(uint offset, uint index) {
    return State(read(offset, index).mean, ACC(0), ACC(0));
}

#ifdef PARTIAL
void finish(uint place, State state) { push.states.at[place] = state; }
#elif defined(MOMENTS)
void finish(uint place, State state) {
    push.mean_.at[place] = state.mean;
    push.out_.at[place] = state.squares * push.scale;
}
#else
void finish(uint place, State state) {
    store(push.out_, place, state.squares * push.scale);
}
#endif
