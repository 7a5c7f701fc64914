// State of a scan: what elements up to one give
//
// The includer has lib/dtype.glsl. Sums, or products with PRODUCT; with the macro LOGSUM
// log-sum-exp; with EXTREME the last of the greatest elements, of the smallest if LEAST,
// where NaN is beyond all. States are joined in any order.
//
//   State                 fields of 4 bytes, or of 8 where ACC has them
//   SOURCE, element       what is scanned: elements, or states with FROM_STATES
//   TARGET                what is written: elements, or states with TO_STATES
//   neutral, joined       of no element; of what two states are of
//   value_of              the result of a state
//   shuffled              the state of another invocation, with SHUFFLES

#if defined(LOGSUM)
#if DTYPE == DTYPE_FLOAT64
#include "lib/double/exponential.glsl"
#define LEAST_VALUE -INFINITE_DOUBLE
double falling_exp(double x) { return precise_exp(x); }
#else
#include "lib/math/exponential.glsl"
#define LEAST_VALUE -INFINITE
#endif
#include "lib/online_softmax.glsl"

State state_of(ACC value, uint place) { return State(value, ACC(1)); }
State neutral() { return State(LEAST_VALUE, ACC(0)); }
State joined(State a, State b) { return merge(a, b); }
ACC value_of(State state) { return state.greatest + precise_log(state.sum); }
#elif defined(EXTREME)
layout(constant_id = 8) const uint LEAST = 0;

struct State {
    ACC value;
    uint place;
};

const uint NOWHERE = ~0u;

State state_of(ACC value, uint place) { return State(value, place); }
State neutral() { return State(ACC(0), NOWHERE); }
State joined(State a, State b) {
    bool later = b.place > a.place, a_is_nan = a.value != a.value;
    bool takes = LEAST != 0 ? b.value < a.value : b.value > a.value;
    takes = a_is_nan ? false : takes || (b.value == a.value && later);
    if (b.value != b.value) takes = !a_is_nan || later;
    if (a.place == NOWHERE) takes = true;
    if (b.place == NOWHERE) takes = false;
    return takes ? b : a;
}
ACC value_of(State state) { return state.value; }
#else
layout(constant_id = 8) const uint PRODUCT = 0;

struct State {
    ACC value;
};

State state_of(ACC value, uint place) { return State(value); }
State neutral() { return State(PRODUCT != 0 ? ACC(1) : ACC(0)); }
State joined(State a, State b) {
    return State(PRODUCT != 0 ? a.value * b.value : a.value + b.value);
}
ACC value_of(State state) { return state.value; }
#endif

layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict readonly
    buffer StatesIn { State at[]; };
layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict writeonly
    buffer StatesOut { State at[]; };

#ifdef FROM_STATES
#define SOURCE StatesIn
#define STAGED State
State staged_state(State staged, uint place) { return staged; }
State staged_element(StatesIn x, uint index) { return x.at[index]; }
#else
#define SOURCE In
#define STAGED ACC
State staged_state(ACC staged, uint place) { return state_of(staged, place); }
ACC staged_element(In x, uint index) { return load(x, index); }
#endif
State element(SOURCE x, uint index, uint place) {
    return staged_state(staged_element(x, index), place);
}

#ifdef TO_STATES
#define TARGET StatesOut
#else
#define TARGET Out
#endif

#ifdef SHUFFLES
State shuffled(State state, uint lane) {
#if defined(LOGSUM)
    return State(subgroupShuffle(state.greatest, lane), subgroupShuffle(state.sum, lane));
#elif defined(EXTREME)
    return State(subgroupShuffle(state.value, lane), subgroupShuffle(state.place, lane));
#else
    return State(subgroupShuffle(state.value, lane));
#endif
}
#endif
