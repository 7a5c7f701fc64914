// An index that is the same for a workgroup, such that llvmpipe knows
//
// Llvmpipe gathers lane by lane, but loads once from an address that it knows to be
// uniform, as those from push constants are: `TOLD` makes a number of push constants.
// What is loaded must be outside of any branch and of any loop that is not unrolled.
//
// LANES: invocations of a workgroup, which is one subgroup, 4 or 8.

#ifndef LANES
#define LANES 8
#endif

// The number, below 8^8, made uniform; digit[k] of the push constants is k, and an array
// that is passed on is none of them any more.
#define TOLD(digit, number)                                                            \
    (digit[number & 7] | digit[number >> 3 & 7] << 3 | digit[number >> 6 & 7] << 6     \
        | digit[number >> 9 & 7] << 9 | digit[number >> 12 & 7] << 12                  \
        | digit[number >> 15 & 7] << 15 | digit[number >> 18 & 7] << 18                \
        | digit[number >> 21 & 7] << 21)
