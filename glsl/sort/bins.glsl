// Prefix sums of the counts of all values of a digit, by one workgroup

const uint DIGIT_BITS = 8;
const uint BINS = 1u << DIGIT_BITS;

shared uint bin_sums[2][BINS];

// Scans bin_sums[0], which must have been written before a barrier: Hillis and Steele.
// The number of steps is even, so the sums end where they began.
void scan_bins() {
    uint at = 0;
    for (uint apart = 1; apart < BINS; apart *= 2) {
        for (uint bin = gl_LocalInvocationIndex; bin < BINS;
             bin += gl_WorkGroupSize.x) {
            uint earlier = bin >= apart ? bin_sums[at][bin - apart] : 0u;
            bin_sums[1 - at][bin] = bin_sums[at][bin] + earlier;
        }
        at = 1 - at;
        barrier();
    }
}

// How many come before a bin.
uint bin_start(uint bin) { return bin == 0 ? 0u : bin_sums[0][bin - 1]; }
