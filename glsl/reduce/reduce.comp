// A reduction of a strided tensor: each output combines `count` elements
// grid    linear in workgroups of LOCAL_X / GROUP outputs; z: chunk of the elements
// in      x of T, up to 4 kept and 4 reduced dimensions, innermost first, strides >= 0
// out     out_ (chunks, outputs) of RESULT; ARGMAX, ARGMIN: the first index of the best
// consts  OPERATION; GROUP: invocations per output, a power of two; OUTPUTS_FAST:
//         neighbours take neighbouring outputs; KEPT_DIMS, REDUCED_DIMS: 1 to 4
// source  NumPy's rules: NaN is both greatest and least
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

#ifndef T
#define T float
#endif
#ifndef RESULT
#define RESULT T
#endif

layout(constant_id = 3) const uint OPERATION = 0;
layout(constant_id = 4) const uint GROUP = 1;
layout(constant_id = 5) const uint OUTPUTS_FAST = 0;
layout(constant_id = 6) const uint KEPT_DIMS = 1;
layout(constant_id = 7) const uint REDUCED_DIMS = 1;

const uint SUM = 0;
const uint PROD = 1;
const uint MAX = 2;
const uint MIN = 3;
const uint ARGMAX = 4;
const uint ARGMIN = 5;
const uint ACCUMULATORS = 4;
const uint OUTPUTS = gl_WorkGroupSize.x / GROUP;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    In { T at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Out { RESULT at[]; };

// The outermost dimension needs no size; magic and shift are those of `divide`.
layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint outputs;
    uint count;
    T scale;
    uint kept_size[3];
    uint kept_stride[4];
    uint reduced_size[3];
    uint reduced_magic[3];
    uint reduced_shift[3];
    uint reduced_stride[4];
} push;

struct State {
    T value;
    uint index;
};

shared T shared_value[gl_WorkGroupSize.x];
shared uint shared_index[gl_WorkGroupSize.x];

// Read once, outside all loops: lavapipe fetches push constants inside them lane by lane.
In x = push.x;
uint reduced_size[3] = push.reduced_size;
uint reduced_magic[3] = push.reduced_magic;
uint reduced_shift[3] = push.reduced_shift;
uint reduced_stride[4] = push.reduced_stride;

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

bool replaces(State old, State new) {
    bool old_nan = old.value != old.value;
    bool new_nan = new.value != new.value;
    bool greatest = OPERATION == MAX || OPERATION == ARGMAX;
    bool better = greatest ? new.value > old.value : new.value < old.value;
    bool equal = new.value == old.value || (old_nan && new_nan);
    return (!old_nan && (new_nan || better)) || (equal && new.index < old.index);
}

State combine(State old, State new) {
    if (OPERATION == SUM) return State(old.value + new.value, 0);
    if (OPERATION == PROD) return State(old.value * new.value, 0);
    bool replace = replaces(old, new);
    return State(replace ? new.value : old.value, replace ? new.index : old.index);
}

// Where `part` of an output lies in shared memory.
uint place(uint output_, uint part) {
    return OUTPUTS_FAST != 0 ? part * OUTPUTS + output_ : output_ * GROUP + part;
}

void main() {
    uint at = gl_LocalInvocationIndex;
    uint slot = OUTPUTS_FAST != 0 ? at % OUTPUTS : at / GROUP;
    uint part = OUTPUTS_FAST != 0 ? at / OUTPUTS : at % GROUP;
    uint output_ = linear_workgroup() * OUTPUTS + slot;
    uint share = (push.count - 1) / gl_NumWorkGroups.z + 1;
    uint first = min(gl_WorkGroupID.z * share, push.count - 1);
    uint end = min(gl_WorkGroupID.z * share + share, push.count);
    uint base = kept_offset(min(output_, push.outputs - 1));

    // Extremes may count an element twice, so any element of the output starts them.
    State start = State(x.at[base + reduced_offset(first)], first);
    if (OPERATION == SUM) start.value = T(0);
    if (OPERATION == PROD) start.value = T(1);
    State state[ACCUMULATORS];
    for (uint i = 0; i < ACCUMULATORS; ++i) state[i] = start;
    for (uint index = gl_WorkGroupID.z * share + part; index < end;
         index += GROUP * ACCUMULATORS)
        for (uint i = 0; i < ACCUMULATORS; ++i) {
            uint mine = index + i * GROUP;
            T value = x.at[base + reduced_offset(min(mine, end - 1))];
            if (mine < end) state[i] = combine(state[i], State(value, mine));
        }
    for (uint i = 1; i < ACCUMULATORS; ++i) state[0] = combine(state[0], state[i]);

    shared_value[place(slot, part)] = state[0].value;
    shared_index[place(slot, part)] = state[0].index;
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (part < half_size) {
            uint other = place(slot, part + half_size);
            state[0] = combine(state[0], State(shared_value[other], shared_index[other]));
            shared_value[place(slot, part)] = state[0].value;
            shared_index[place(slot, part)] = state[0].index;
        }
    }
    if (part == 0 && output_ < push.outputs) {
        bool wants_index = OPERATION == ARGMAX || OPERATION == ARGMIN;
        push.out_.at[gl_WorkGroupID.z * push.outputs + output_] =
            wants_index ? RESULT(state[0].index) : RESULT(state[0].value * push.scale);
    }
}
