// Group reduction: merged state of the GROUP neighbouring invocations of an output
//
// The includer first defines State and `State merge(State, State)`, where the second
// comes later. Every invocation of a workgroup must call these functions. With the macro
// SHUFFLES, GROUP is the size of the workgroup, and the includer defines `shuffled`.

layout(constant_id = 4) const uint GROUP = 1;
layout(constant_id = 5) const uint OUTPUTS_FAST = 0;

const uint OUTPUTS = gl_WorkGroupSize.x / GROUP;

shared State shared_state[gl_WorkGroupSize.x];

// The output of this invocation within the workgroup, and its number among those of it:
// neighbours take neighbouring outputs if OUTPUTS_FAST, else elements of one output.
uint output_slot() {
    uint at = gl_LocalInvocationIndex;
    return OUTPUTS_FAST != 0 ? at % OUTPUTS : at / GROUP;
}

uint group_part() {
    uint at = gl_LocalInvocationIndex;
    return OUTPUTS_FAST != 0 ? at / OUTPUTS : at % GROUP;
}

// Shared-memory index of an invocation's state within an output.
uint shared_place(uint slot, uint part) {
    return OUTPUTS_FAST != 0 ? part * OUTPUTS + slot : slot * GROUP + part;
}

#ifdef SHUFFLES
// The state of the invocation of this subgroup whose number differs by the bits of `mask`
State shuffled(State state, uint mask);
#endif

// Merged state of the whole group, valid in its invocation 0 only.
State over_group(State state, uint slot, uint part) {
#ifdef SHUFFLES
    // Here the group is the workgroup, so each subgroup lies in one.
    for (uint mask = 1; mask < gl_SubgroupSize; mask *= 2)
        state = merge(state, shuffled(state, mask));
    if (subgroupElect()) shared_state[gl_SubgroupID] = state;
    barrier();
    if (part == 0) {
        state = shared_state[0];
        for (uint i = 1; i < gl_NumSubgroups; ++i) state = merge(state, shared_state[i]);
        shared_state[0] = state;
    }
    return state;
#endif
    shared_state[shared_place(slot, part)] = state;
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (part < half_size) {
            state = merge(state, shared_state[shared_place(slot, part + half_size)]);
            shared_state[shared_place(slot, part)] = state;
        }
    }
    return state;
}

// The same for every invocation of the group.
State over_whole_group(State state, uint slot, uint part) {
    // Without others to wait for, a barrier would only cost, on software devices much.
    if (GROUP == 1) return state;
    over_group(state, slot, part);
    barrier();
    return shared_state[shared_place(slot, 0)];
}
