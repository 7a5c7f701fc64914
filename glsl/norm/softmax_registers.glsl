// Online softmax of a register-resident row: maximum and sum, with one barrier
//
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax,
// arXiv:1805.02867.

vec4 quick_exp(vec4 x) {
    return vec4(quick_exp(x.x), quick_exp(x.y), quick_exp(x.z), quick_exp(x.w));
}

// Provisional offset of the exponents until the row's maximum is known; -infinity has
// no difference from itself.
float exponential_reference(float greatest) {
    return greatest == -INFINITE ? 0.0 : greatest;
}

// Rescaling factor of exponentials from a partial maximum to the row's maximum.
float exponential_factor(float greatest, float greatest_of_all) {
    return greatest == -INFINITE ? 0.0 : quick_exp(greatest - greatest_of_all);
}

vec2 merge_exponentials(vec2 a, vec2 b) {
    float greatest = max(a.x, b.x);
    float sum = a.y * exponential_factor(a.x, greatest);
    return vec2(greatest, sum + b.y * exponential_factor(b.x, greatest));
}

// Maximum and sum of the row from those of the subgroups; NaN in a sum propagates.
vec2 over_row(vec2 state) {
    uint subgroups = row_subgroups();
    if (subgroups == 1u) return state;
    if (subgroupElect()) row_shared[0][gl_SubgroupID] = state;
    barrier();
    vec2 all = vec2(-INFINITE, 0);
    uint i = gl_SubgroupInvocationID, first = row_slot() * subgroups;
    if (i < subgroups) all = row_shared[0][first + i];
    for (i += gl_SubgroupSize; i < subgroups; i += gl_SubgroupSize)
        all = merge_exponentials(all, row_shared[0][first + i]);
    float greatest = subgroupMax(all.x);
    return vec2(greatest, subgroupAdd(all.y * exponential_factor(all.x, greatest)));
}
