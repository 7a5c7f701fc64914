// Group sum and maximum over the GROUP neighbouring invocations of an output
//
// Shared memory and barriers only: every invocation of the workgroup must call them.
// GROUP is a power of two that divides LOCAL_X; the includer defines it.

shared ACC tree[gl_WorkGroupSize.x];

ACC over_tree(ACC value, bool greatest) {
    uint at = gl_LocalInvocationIndex;
    tree[at] = value;
    for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (at % GROUP < half_size) {
            ACC other = tree[at + half_size];
            tree[at] = greatest ? max(tree[at], other) : tree[at] + other;
        }
    }
    barrier();
    ACC result = tree[at - at % GROUP];
    barrier();
    return result;
}

ACC tree_sum(ACC value) { return over_tree(value, false); }

ACC tree_max(ACC value) { return over_tree(value, true); }
