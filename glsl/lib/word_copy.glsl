// Word copy: elements of 1, 2, 4 or 8 bytes moved as 32-bit words, on any device
//
// A word holds LANES elements; an element of 8 bytes is two words with one lane each.

layout(constant_id = 3) const uint SIZE = 4;

const uint LANES = SIZE < 4 ? 4 / SIZE : 1;
const uint PARTS = SIZE == 8 ? 2 : 1;
const uint BITS = SIZE < 4 ? 8 * SIZE : 32;
const uint MASK = SIZE < 4 ? (1u << (BITS & 31)) - 1u : 0xffffffffu;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    WordsOut { uint at[]; };

uint words_of(uint count) {
    return SIZE == 8 ? 2 * count : (count - 1) / LANES + 1;
}

// The element that a lane of a word belongs to.
uint element_of(uint word, uint lane) {
    return word / PARTS * LANES + lane;
}

// The bits of an element, in the lowest places; of 8 bytes the half that goes to `word`.
uint read_bits(Words x, uint element, uint word) {
    uint bits = x.at[element * PARTS / LANES + word % PARTS];
    return bits >> element % LANES * BITS % 32 & MASK;
}

uint insert(uint word, uint lane, uint bits) {
    uint shift = lane * BITS % 32;
    return word & ~(MASK << shift) | bits << shift;
}
