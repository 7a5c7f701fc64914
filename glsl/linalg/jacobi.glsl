// Pairs of a round robin, of which each meets each other once
//
// The includer defines BLOCK: the rows of a block, half of those of a pair of blocks.

const uint SIDE = 2 * BLOCK;

// Who meets in a round of an even number of players, the smaller number first
uvec2 pair_of(uint round_, uint number, uint players) {
    uint others = players - 1, one = round_ + number, two = round_ + others - number;
    if (number == 0) two = others;
    if (one >= others) one -= others;
    if (number != 0 && two >= others) two -= others;
    return uvec2(min(one, two), max(one, two));
}

// The row of a matrix that is number k of a pair of blocks
uint row_of(uvec2 blocks, uint k) {
    return k < BLOCK ? blocks.x * BLOCK + k : (blocks.y - 1) * BLOCK + k;
}
