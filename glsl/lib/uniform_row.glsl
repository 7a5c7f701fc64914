// Rows of words that a workgroup copies with uniform loads, for llvmpipe
//
// ROUNDS: loads of two words by each of the LANES, 4 or 8, of a workgroup.

#include "lib/uniform_index.glsl"

#ifndef ROUNDS
#define ROUNDS 4
#endif

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    PairsOut { uint64_t at[]; };

layout(constant_id = 1) const uint PAIRED = 0;

const uint SEGMENT = 2 * LANES * ROUNDS;

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
