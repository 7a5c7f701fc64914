// Register-resident rows of floats, in vec4 loads, shared by GROUP invocations
//
// Row r of (rows, count) is read in the aligned vec4 that cover it. Each invocation
// holds REGISTERS of them, GROUP apart. ENDS is the alignment of rows: 0 if all rounds
// are full, 1 if rows end with a vec4, 2 if anywhere, so that a vec4 may hold elements of
// neighbouring rows too. Needs full subgroups, and GROUP a multiple of their size; each
// invocation of a workgroup must call `group_sum` and the like.
// Source: measured on an NVIDIA H200: one row per workgroup, all its loads before the
// first use, and as few barriers as there are reductions come within 3 % of a copy.

layout(constant_id = 4) const uint GROUP = 1;
layout(constant_id = 5) const uint ENDS = 0;
layout(constant_id = 6) const uint REGISTERS = 1;

#include "lib/vec4_io.glsl"

// The subgroups of a row, and this invocation among those of the row.
uint row_subgroups() { return GROUP / gl_SubgroupSize; }
uint row_slot() { return gl_SubgroupID / row_subgroups(); }
uint row_part() {
    return gl_SubgroupID % row_subgroups() * gl_SubgroupSize + gl_SubgroupInvocationID;
}

// Extent of a row: its first vec4, the elements in that before the row, its vec4 count.
struct Row {
    uint first;
    uint lead;
    uint quads;
    uint count;
};

Row row_at(uint row, uint count) {
    uint begin = row * count, lead = begin & 3u;
    return Row(begin >> 2, lead, (lead + count + 3u) >> 2, count);
}

// Row index of a lane of one of its vec4; count or more if outside the row.
uint element_at(Row row, uint quad, uint lane) { return 4u * quad + lane - row.lead; }

// Whether round j of a loop over REGISTERS can be a tail of the row.
bool at_end(uint j) {
    if (ENDS == 2) return j + 2u >= REGISTERS || j == 0u;
    return ENDS == 1 && j + 1u == REGISTERS;
}

vec4 load_row_quad(QuadsIn x, Row row, uint quad) {
    return load_quad(x, row.first + (ENDS != 0 ? min(quad, row.quads - 1u) : quad));
}

// The vec4 with lanes outside of the row masked by `other`.
vec4 within_row(vec4 value, Row row, uint j, uint quad, float other) {
    if (!at_end(j)) return value;
    if (ENDS == 1) return quad < row.quads ? value : vec4(other);
    uvec4 elements = element_at(row, quad, 0) + uvec4(0, 1, 2, 3);
    return mix(value, vec4(other), greaterThanEqual(elements, uvec4(row.count)));
}

// Store the lanes of a vec4 that are in the row.
void store_row_quad(QuadsOut out_, Row row, uint j, uint quad, vec4 value) {
    bool whole = !at_end(j) || quad < row.quads;
    if (ENDS == 2 && at_end(j))
        whole = element_at(row, quad, 0) < row.count
            && element_at(row, quad, 3) < row.count;
    if (whole) store_quad(out_, row.first + quad, value);
    if (ENDS != 2 || whole) return;
    [[unroll]] for (uint lane = 0; lane < 4; ++lane)
        if (element_at(row, quad, lane) < row.count)
            store(Out(out_), 4u * (row.first + quad) + lane, value[lane]);
}

// Enough for subgroups of 4 in a workgroup of 1024, and of 1 in one of 256.
shared vec2 row_shared[2][256];

// The sums over a row; `bank` is not that of the call before.
#define DECLARE_GROUP_SUM(TYPE, LANES)                                                 \
    TYPE group_sum(TYPE value, uint bank) {                                            \
        value = subgroupAdd(value);                                                    \
        uint subgroups = row_subgroups();                                              \
        if (subgroups == 1u) return value;                                             \
        if (subgroupElect()) row_shared[bank][gl_SubgroupID].LANES = value;            \
        barrier();                                                                     \
        TYPE total = TYPE(0);                                                          \
        for (uint i = gl_SubgroupInvocationID; i < subgroups; i += gl_SubgroupSize)    \
            total += row_shared[bank][row_slot() * subgroups + i].LANES;               \
        return subgroupAdd(total);                                                     \
    }
DECLARE_GROUP_SUM(float, x)
DECLARE_GROUP_SUM(vec2, xy)
