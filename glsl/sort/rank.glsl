// The rank that is wanted of a line, from 0, by how many NaN there are

layout(constant_id = 7) const uint MISSING = 0;

const uint TAKES_PLACE = 1;  // NaN takes the place of any other, the last of them
const uint LEFT_OUT = 2;     // the median of the others

uint rank_of(uint rank, uint count, uint missing) {
    if (MISSING == TAKES_PLACE) return missing > 0 ? count - 1 : rank;
    uint numbers = count - missing;
    if (MISSING == LEFT_OUT) return numbers > 0 ? (numbers - 1) / 2 : 0;
    return rank;
}
