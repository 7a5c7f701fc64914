// Bands of matrices

#include "lib/index.glsl"

// Whether column minus row of element i, of (..., rows, columns), is from `low` to `high`;
// a magic number and a shift divide by the columns and rows: see `divide`.
bool in_band(int i, int rows, int columns, int low, int high, ivec2 by_rows, ivec2 by_columns) {
    uint line = divide(uint(i), uint(by_columns.x), uint(by_columns.y));
    uint matrix = divide(line, uint(by_rows.x), uint(by_rows.y));
    int row = int(line) - int(matrix) * rows, apart = i - int(line) * columns - row;
    return all(bvec2(apart >= low, apart <= high));
}
