// The largest of a workgroup's numbers, and its place: what pivots are chosen by
//
// All invocations call `over_workgroup`. With the macro SUBGROUPS their subgroups are
// full, and find it by maxima of the numbers' bits, which have the order of the numbers.
// The includer defines MOST, the most invocations, and NONE, which is no place.

struct Largest {
    REAL size;
    uint place;
};

// Of equal ones the first; NaN is none
Largest larger(Largest old, Largest other) {
    bool wins =
        other.size > old.size || other.size == old.size && other.place < old.place;
    return wins ? other : old;
}

#ifdef SUBGROUPS
// Subgroups of at least 4
shared REAL subgroup_sizes[MOST / 4];
shared uint subgroup_places[MOST / 4];

Largest over_subgroup(Largest own) {
    // Nothing is negative but what has no place.
    bool has = own.size >= 0.0;
#ifdef DOUBLE
    uvec2 bits = has ? unpackDouble2x32(own.size) : uvec2(0);
    uint high = subgroupMax(bits.y);
    bool is_high = has && bits.y == high;
    uint low = subgroupMax(is_high ? bits.x : 0u);
    bool is_largest = is_high && bits.x == low;
    REAL size = packDouble2x32(uvec2(low, high));
#else
    uint bits = has ? floatBitsToUint(own.size) : 0u;
    uint high = subgroupMax(bits);
    bool is_largest = has && bits == high;
    REAL size = uintBitsToFloat(high);
#endif
    uint place = subgroupMin(is_largest ? own.place : NONE);
    return Largest(place == NONE ? REAL(-1.0) : size, place);
}

Largest over_workgroup(Largest own) {
    own = over_subgroup(own);
    if (subgroupElect()) {
        subgroup_sizes[gl_SubgroupID] = own.size;
        subgroup_places[gl_SubgroupID] = own.place;
    }
    barrier();
    own = Largest(-1.0, NONE);
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
        own = larger(own, Largest(subgroup_sizes[i], subgroup_places[i]));
    return over_subgroup(own);
}
#else
// Invocations that find the largest of a part each
const uint FINDERS = 32;

shared REAL sizes[MOST];
shared uint places[MOST];
shared REAL best_sizes[FINDERS];
shared uint best_places[FINDERS];

Largest over_workgroup(Largest own) {
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint finders = min(FINDERS, size);
    sizes[local] = own.size;
    places[local] = own.place;
    barrier();
    if (local < finders) {
        own = Largest(-1.0, NONE);
        for (uint i = local; i < size; i += finders)
            own = larger(own, Largest(sizes[i], places[i]));
        best_sizes[local] = own.size;
        best_places[local] = own.place;
    }
    barrier();
    own = Largest(-1.0, NONE);
    for (uint i = 0; i < finders; ++i)
        own = larger(own, Largest(best_sizes[i], best_places[i]));
    return own;
}
#endif
