// Bitonic sort of `keys` and `places`, two arrays in shared memory that must be declared

void order_pair(uint a, uint b) {
    KEY key_a = keys[a], key_b = keys[b];
    uint place_a = places[a], place_b = places[b];
    if (!precedes(key_b, place_b, key_a, place_a)) return;
    keys[a] = key_b;
    keys[b] = key_a;
    places[a] = place_b;
    places[b] = place_a;
}

// Sorts each `width` of the first `slots`, all powers of two; between barriers.
void sort_slots(uint width, uint slots) {
    uint workgroup = gl_WorkGroupSize.x;
    for (uint half_ = 1; half_ < width; half_ *= 2) {
        for (uint pair = gl_LocalInvocationIndex; pair < slots / 2; pair += workgroup) {
            uint low = pair & (half_ - 1), base = (pair - low) * 2;
            order_pair(base + low, base + 2 * half_ - 1 - low);
        }
        barrier();
        for (uint apart = half_ / 2; apart > 0; apart /= 2) {
            for (uint pair = gl_LocalInvocationIndex; pair < slots / 2;
                 pair += workgroup) {
                uint low = pair & (apart - 1), base = (pair - low) * 2;
                order_pair(base + low, base + low + apart);
            }
            barrier();
        }
    }
}
