// Reduction of a strided tensor to sums, products or extremes
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, as reduce/body.glsl indexes it; y likewise, with PAIRED
// out     out_ (chunks, outputs) of T, or of int64 with the macro WIDE; times scale
// consts  OPERATION; MAP: element-wise map before it; those of lib/group_reduce.glsl
//         and reduce/body.glsl
// source  NumPy's rules: NaN is both greatest and least
#version 460
#extension GL_EXT_buffer_reference : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef WIDE
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint OPERATION = 0;
layout(constant_id = 8) const uint MAP = 0;

const uint SUM = 0;
const uint PROD = 1;
const uint MAX = 2;
const uint MIN = 3;

const uint ABSOLUTE = 1;
const uint SQUARE = 2;
const uint NONZERO = 3;
const uint NUMBER = 4;
const uint IS_NUMBER = 5;
const uint ZERO = 6;
const uint FACTOR = 7;

#ifdef WIDE
#define VALUE int64_t
#define RESULT WideOut
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    WideOut { int64_t at[]; };
void store(WideOut elements, uint index, int64_t value) { elements.at[index] = value; }
#else
#define VALUE ACC
#define RESULT Out
#endif

struct State {
    VALUE value;
};

State merge(State old, State new) {
    if (OPERATION == SUM) return State(old.value + new.value);
    if (OPERATION == PROD) return State(old.value * new.value);
    bool better = OPERATION == MAX ? new.value > old.value : new.value < old.value;
    return better || new.value != new.value ? new : old;
}

#define TURNS
#define SOURCE In
#ifdef PAIRED
#define RESULTS In y; RESULT out_; VALUE scale;
#else
#define RESULTS RESULT out_; VALUE scale;
#endif
#include "reduce/body.glsl"

// Denormal numbers, which some devices take for 0, are not.
bool is_zero(VALUE value) {
#if IS_FLOAT && DTYPE != DTYPE_FLOAT64
    return (floatBitsToUint(value) & 0x7fffffffu) == 0u;
#else
    return value == VALUE(0);
#endif
}

#ifdef SHUFFLES
State shuffled(State state, uint mask) {
    return State(subgroupShuffleXor(state.value, mask));
}
#endif

State element(ACC loaded, uint index) {
    VALUE value = VALUE(loaded);
    if (MAP == ABSOLUTE) value = value < VALUE(0) ? -value : value;
    if (MAP == SQUARE) value *= value;
    if (MAP == NONZERO) value = VALUE(is_zero(value) ? 0 : 1);
    if (MAP == NUMBER && value != value) value = VALUE(0);
    if (MAP == IS_NUMBER) value = VALUE(value == value ? 1 : 0);
    if (MAP == ZERO) value = VALUE(is_zero(value) ? 1 : 0);
    if (MAP == FACTOR && value == VALUE(0)) value = VALUE(1);
    return State(value);
}

State start(uint offset, uint index) {
    if (OPERATION == SUM) return State(VALUE(0));
    if (OPERATION == PROD) return State(VALUE(1));
#if IS_FLOAT && DTYPE != DTYPE_FLOAT64
    // Infinite, so that no invocation waits for an element before it loads its own
    return State(uintBitsToFloat(OPERATION == MAX ? 0xff800000u : 0x7f800000u));
#else
    return read(offset, index);
#endif
}

void finish(uint place, State state) {
    store(push.out_, place, state.value * push.scale);
}
