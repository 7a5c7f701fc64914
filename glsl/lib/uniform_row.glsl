// Rows of words that a workgroup copies with uniform loads, for llvmpipe
//
// Llvmpipe gathers lane by lane, but loads once from an address that it knows to be
// uniform, as those from push constants are: `TOLD` makes a number of push constants.
// What is loaded must be outside of any branch.
//
// ROUNDS: loads of two words by each of the LANES, 4 or 8, of a workgroup.

#ifndef ROUNDS
#define ROUNDS 4
#endif
#ifndef LANES
#define LANES 8
#endif

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    PairsOut { uint64_t at[]; };

layout(constant_id = 1) const uint PAIRED = 0;

const uint SEGMENT = 2 * LANES * ROUNDS;

// The number, below 8^8, made uniform; digit[k] of the push constants `args` is k, and
// an array that is passed on is none of them any more.
#define TOLD(number)                                                                   \
    (args.digit[number & 7] | args.digit[number >> 3 & 7] << 3                         \
        | args.digit[number >> 6 & 7] << 6 | args.digit[number >> 9 & 7] << 9          \
        | args.digit[number >> 12 & 7] << 12 | args.digit[number >> 15 & 7] << 15      \
        | args.digit[number >> 18 & 7] << 18 | args.digit[number >> 21 & 7] << 21)

// The own lane's word of those from `first` on, each second.
uint own_word(Words words, uint first) {
    uint lane = gl_LocalInvocationIndex;
    uint word = words.at[first];
#define OTHER_LANE(number)                                                             \
    {                                                                                  \
        uint other = words.at[first + 2 * number];                                     \
        word = lane == number ? other : word;                                          \
    }
    OTHER_LANE(1)
    OTHER_LANE(2)
    OTHER_LANE(3)
#if LANES > 4
    OTHER_LANE(4)
    OTHER_LANE(5)
    OTHER_LANE(6)
    OTHER_LANE(7)
#endif
    return word;
}

// Store two words, at a place that is even if PAIRED.
void store_pair(WordsOut target, uint place, uint low, uint high) {
    if (PAIRED != 0) {
        PairsOut(target).at[place >> 1] = uint64_t(low) | uint64_t(high) << 32;
    } else {
        target.at[place] = low;
        target.at[place + 1] = high;
    }
}
