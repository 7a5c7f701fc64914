// The greatest element of a row in registers and the sum of exponentials, one barrier
//
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax,
// arXiv:1805.02867.

// A greatest element and a sum of exponentials relative to it; -infinity has the sum 0.
vec2 merge_exponentials(vec2 a, vec2 b) {
    float greatest = max(a.x, b.x);
    if (greatest == -INFINITE) return vec2(-INFINITE, 0);
    return vec2(
        greatest,
        a.y * precise_exp(a.x - greatest) + b.y * precise_exp(b.x - greatest));
}

// What the elements are relative to until the row's greatest is known; see below.
float exponential_reference(float greatest) {
    return greatest == -INFINITE ? 0.0 : greatest;
}

// The state of the row from that of the subgroup; a NaN in a sum stays.
vec2 over_row(vec2 state) {
    uint subgroups = row_subgroups();
    if (subgroups == 1u) return state;
    if (subgroupElect()) row_shared[0][gl_SubgroupID] = state;
    barrier();
    vec2 all = vec2(-INFINITE, 0);
    for (uint i = gl_SubgroupInvocationID; i < subgroups; i += gl_SubgroupSize)
        all = merge_exponentials(all, row_shared[0][row_slot() * subgroups + i]);
    float greatest = subgroupMax(all.x);
    float factor = precise_exp(all.x - exponential_reference(greatest));
    return vec2(greatest, subgroupAdd(all.y * factor));
}
