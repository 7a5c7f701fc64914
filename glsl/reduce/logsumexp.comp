// Log-sum-exp of a strided tensor over dimensions
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, as reduce/body.glsl indexes it, or states with the macro MERGE
// out     out_ (outputs) T; with the macro TERMS greatest and total (outputs) of ACC, of
//         which it is made; with the macro PARTIAL instead states (chunks, outputs)
// consts  those of lib/group_reduce.glsl and reduce/body.glsl
// source  Milakov and Gimelshein, Online normalizer calculation for softmax,
//         arXiv:1805.02867
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/online_softmax.glsl"

#ifdef TERMS
#define RESULTS AccOut greatest; AccOut total;
#else
#define RESULTS Out out_;
#endif
#include "reduce/partial_states.glsl"
#ifdef QUADS
#define BLOCK
#endif
#include "reduce/body.glsl"

#ifdef BLOCK
// NaN stays as it is.
ACC at_most_0(ACC x) { return x > ACC(0) ? ACC(0) : x; }

// Relative to the greatest of a block and of all before. An infinity is not subtracted, and
// what is not below it counts as itself, whatever number that makes.
State over_block(State old, ACC4 values[IN_FLIGHT], uint quads) {
    ACC4 most = values[0];
    [[unroll]] for (uint k = 1; k < IN_FLIGHT; ++k)
        most = k < quads ? max(most, values[k]) : most;
    ACC greatest = max(max(most.x, most.y), max(most.z, most.w));
    greatest = max(old.greatest, greatest);
    ACC shift = abs(greatest) < INFINITE ? greatest : ACC(0);
    ACC sum = old.sum;
    if (old.greatest != greatest) sum *= row_exp(at_most_0(old.greatest - shift));
    [[unroll]] for (uint k = 0; k < IN_FLIGHT; ++k)
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            ACC term = row_exp(at_most_0(values[k][i] - shift));
            sum += k < quads ? term : ACC(0);
        }
    return State(greatest, sum);
}
#endif

#ifndef MERGE
State element(ACC value, uint index) { return State(value, ACC(1)); }
#endif

State start(uint offset, uint index) { return State(-INFINITE, ACC(0)); }

#ifdef PARTIAL
void finish(uint place, State state) { push.states.at[place] = state; }
#elif defined(TERMS)
void finish(uint place, State state) {
    // An infinity has no difference from itself.
    bool finite = abs(state.greatest) < INFINITE;
    push.greatest.at[place] = state.greatest;
    push.total.at[place] = finite ? state.sum : NOT_A_NUMBER;
}
#else
void finish(uint place, State state) {
    store(push.out_, place, state.greatest + precise_log(state.sum));
}
#endif
