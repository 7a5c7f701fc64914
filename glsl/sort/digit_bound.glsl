// Radix selection: what is known of an element of some rank, digit by digit
//
// The includer has sort/keys.glsl and BINS, and shared memory: bins[BINS], and
// sums[2][gl_WorkGroupSize.x], chosen_bin, chosen_before, chosen_count.

// What an order is decided by: the words of the key from the highest, then the place.
// `bound` holds those of the last element that is wanted, as far as they are known: the
// words before `word`, and of that one the bits from `shift` on.
#if BYTES == 8
#define KEY_WORDS 2
#else
#define KEY_WORDS 1
#endif
const uint KEY_BITS = BYTES < 4 ? 8 * BYTES : 32;
uint bound[KEY_WORDS + 1], word = 0, shift = KEY_BITS;

uint order_word(KEY key, uint place, uint number) {
#if BYTES == 8
    return number == 0 ? key.y : number == 1 ? key.x : place;
#else
    return number == 0 ? key : place;
#endif
}

// Below 0, 0 or above it: whether an element is before what is known, alike or behind.
int relation(KEY key, uint place) {
    [[unroll]] for (uint number = 0; number <= KEY_WORDS; ++number) {
        uint own = order_word(key, place, number);
        if (number == word) own = shift < 32 ? own >> shift : 0u;
        if (own != bound[number]) return own < bound[number] ? -1 : 1;
        if (number == word) return 0;
    }
    return 0;
}

// Finds the bin in which the `need`-th element is, and how many are before and in it.
void choose_bin(uint need) {
    uint self = gl_LocalInvocationIndex, workgroup = gl_WorkGroupSize.x, at = 0;
    uint each = (BINS + workgroup - 1) / workgroup;
    uint begin = min(self * each, BINS), end = min(begin + each, BINS), total = 0;
    for (uint bin = begin; bin < end; ++bin) total += bins[bin];
    sums[0][self] = total;
    barrier();
    for (uint apart = 1; apart < workgroup; apart *= 2) {
        uint earlier = self >= apart ? sums[at][self - apart] : 0u;
        sums[1 - at][self] = sums[at][self] + earlier;
        at = 1 - at;
        barrier();
    }
    uint running = sums[at][self] - total;
    if (running < need && need <= running + total) {
        uint bin = begin;
        while (running + bins[bin] < need) running += bins[bin++];
        chosen_bin = bin;
        chosen_before = running;
        chosen_count = bins[bin];
    }
    barrier();
}

// Of words that are known, goes on to the next; of `place_bits` bits if it is the place.
void next_word(uint place_bits) {
    if (shift > 0) return;
    ++word;
    shift = word == KEY_WORDS ? place_bits : 32;
}

// What is known ends with the bin that was chosen.
void bound_by(uint chosen, uint width) {
    shift -= width;
    [[unroll]] for (uint i = 0; i <= KEY_WORDS; ++i)
        if (i == word) bound[i] = bound[i] << width | chosen;
}
