// Which group of rows a tile of a grouped GEMM has: rows of group g end at offsets[g]
//
// Tiles begin at the first row of a group. Group g has those from start(g) on, of which
// some may be empty: offsets need no sums, and there are m / size + groups + 1 tiles in
// all. What follows the last offset is one group more.

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Offsets { int at[]; };

struct Group {
    uint number;
    uint tile;  // of the group
    uint first;
    uint end;
};

// Where a group ends, within m rows whatever its offset.
uint group_end(Offsets offsets, uint group, uint m) {
    return min(uint(max(offsets.at[group], 0)), m);
}

uint group_first(Offsets offsets, uint group, uint m) {
    return group == 0 ? 0 : group_end(offsets, group - 1, m);
}

// The group of a tile of `size` rows, by binary search.
Group group_of_tile(Offsets offsets, uint groups, uint m, uint tile, uint size) {
    uint low = 0, high = groups;
    while (low < high) {
        uint middle = (low + high + 1) / 2;
        bool is_after = group_first(offsets, middle, m) / size + middle > tile;
        low = is_after ? low : middle;
        high = is_after ? middle - 1 : high;
    }
    uint first = group_first(offsets, low, m);
    uint end = low == groups ? m : max(first, group_end(offsets, low, m));
    return Group(low, tile - (first / size + low), first, end);
}

// Reports an offset that is below the one before it, or beyond m rows.
#define CHECK_OFFSETS(offsets, groups, m, error)                                       \
    if (linear_workgroup() == 0 && gl_WorkGroupID.z == 0)                              \
        for (uint g = gl_LocalInvocationIndex; g < groups; g += gl_WorkGroupSize.x) {  \
            int offset = offsets.at[g];                                                \
            int before = g == 0 ? 0 : offsets.at[g - 1];                               \
            if (offset < before || offset > int(m))                                    \
                error.at[0] = reported(offset, offset >> 31);                          \
        }
