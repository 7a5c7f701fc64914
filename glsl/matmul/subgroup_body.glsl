// GEMM body, register tile of a subgroup: out[m, n] = sum over k of a[m, k] * b[k, n]
//
// Each lane has ROWS x COLUMNS accumulators, of the columns lane, lane + LOCAL_X, ...
// of the tile. Lanes load different k of `a` and broadcast them, so that a load serves
// the subgroup: software devices are bound by loads, which they do one by one.
//
// LOCAL_X must be the subgroup size. ROWS is at most 32, so that drivers unroll the
// loops over a tile: Mesa before 23 ends loops after 65,535 rounds in all. Without being
// told to, Mesa 25.0 unrolls no tile of 32 x 8, which then takes 20 times as long.
//
// The includer defines what is multiplied:
//   uint product_rows(), product_columns()         size of the result, at least 1
//   uvec2 product_depth()                          first k, and the k after the last
//   Row row(m), Column column(n), Depth depth(k)   what a loader needs of one index
//   ACC load_a(Row, uint k), load_b(Depth, Column)
//   uint result_row(m), result_column(n)           summands of the offset in out_
//   ACC result(uint m, ACC sum)                    what is stored
//   ROW_TILE(tile, size)                           number of a tile's rows within the
//                                                  product, before the others are asked;
//                                                  of tiles that there may be too many

layout(constant_id = 3) const uint ROWS = 16;
layout(constant_id = 4) const uint COLUMNS = 4;

// The value of another lane; 64-bit integers go as two words, for which subgroups need
// no further feature.
ACC from_lane(ACC value, uint lane) {
#if DTYPE == DTYPE_INT64 || DTYPE == DTYPE_UINT64
    return ACC(packUint2x32(subgroupShuffle(unpackUint2x32(uint64_t(value)), lane)));
#else
    return subgroupShuffle(value, lane);
#endif
}

void main() {
    const uint lanes = gl_WorkGroupSize.x;
    uint lane = gl_SubgroupInvocationID;
    uint columns = product_columns();
    uint tiles = (columns - 1) / (COLUMNS * lanes) + 1;
#ifdef ROW_TILE
    uint first_row = ROW_TILE(linear_workgroup() / tiles, ROWS) * ROWS;
    if (first_row >= product_rows()) return;
#else
    uint first_row = linear_workgroup() / tiles * ROWS;
#endif
    uint rows = product_rows();
    uvec2 range = product_depth();
    uint first_column = linear_workgroup() % tiles * COLUMNS * lanes;

    Row row_of[ROWS];
    Column column_of[COLUMNS];
    ACC sum[ROWS][COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS; ++i) {
        row_of[i] = row(min(first_row + i, rows - 1));
        [[unroll]] for (uint j = 0; j < COLUMNS; ++j) sum[i][j] = ACC(0);
    }
    [[unroll]] for (uint j = 0; j < COLUMNS; ++j)
        column_of[j] = column(min(first_column + j * lanes + lane, columns - 1));

    for (uint start = range.x; start < range.y; start += lanes) {
        ACC a[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; ++i)
            a[i] = load_a(row_of[i], min(start + lane, range.y - 1));
        uint steps = min(lanes, range.y - start);
        [[dont_unroll]] for (uint step = 0; step < steps; ++step) {
            Depth d = depth(start + step);
            ACC b[COLUMNS];
            [[unroll]] for (uint j = 0; j < COLUMNS; ++j)
                b[j] = load_b(d, column_of[j]);
            [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                ACC x = from_lane(a[i], step);
                [[unroll]] for (uint j = 0; j < COLUMNS; ++j)
                    sum[i][j] = multiply_add(x, b[j], sum[i][j]);
            }
        }
    }

    [[unroll]] for (uint j = 0; j < COLUMNS; ++j) {
        uint n = first_column + j * lanes + lane;
        uint place = result_column(n);
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            uint m = first_row + i;
            ACC value = result(min(m, rows - 1), sum[i][j]);
            if (m < rows && n < columns) store(out_, result_row(m) + place, value);
        }
    }
}
