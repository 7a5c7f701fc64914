// Group sum and maximum over the GROUP neighbouring invocations of an output
//
// Shared memory and barriers only: every invocation of the workgroup must call them.
// GROUP is a power of two that divides LOCAL_X; the includer defines it.

shared ACC tree[gl_WorkGroupSize.x];

ACC tree_sum(ACC value) {
    uint at = gl_LocalInvocationIndex;
    tree[at] = value;
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (at % GROUP < half_size) tree[at] += tree[at + half_size];
    }
    barrier();
    ACC total = tree[at - at % GROUP];
    barrier();
    return total;
}

ACC tree_max(ACC value) {
    uint at = gl_LocalInvocationIndex;
    tree[at] = value;
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (at % GROUP < half_size) tree[at] = max(tree[at], tree[at + half_size]);
    }
    barrier();
    ACC greatest = tree[at - at % GROUP];
    barrier();
    return greatest;
}
