// Elements of a product of reflections and of the columns that it is applied to
//
// The includer defines VECTORS, FORWARD and `args` with m, n, begun and last. The vectors
// are the columns from `begun` on of `factors`, or of `target` if FORWARD, below their
// first elements, which are 1 and on the diagonal. If not FORWARD the target is the
// identity where it was not written: in rows and columns of the vectors.

// Element `row` of the vector that is number k
REAL vector_at(Reals factors, Results target, uint row, uint k) {
    uint n = args.n, column = args.begun + k;
    uint at = (gl_WorkGroupID.z * args.m + row) * n + column;
    REAL value = row == column && column < n ? 1.0 : 0.0;
    bool is_read = row > column && row < args.m && column < n;
    if (is_read && FORWARD != 0) value = target.at[at];
    if (is_read && FORWARD == 0) value = factors.at[at];
    return value;
}

REAL element_at(Results target, uint row, uint column) {
    uint behind = args.begun + VECTORS;
    bool is_inside = row < args.m && column < args.last;
    bool is_written = FORWARD != 0 || (row >= behind && column >= behind);
    REAL value = is_inside && row == column ? 1.0 : 0.0;
    if (is_written) value = 0.0;
    if (is_written && is_inside)
        value = target.at[(gl_WorkGroupID.z * args.m + row) * args.n + column];
    return value;
}
