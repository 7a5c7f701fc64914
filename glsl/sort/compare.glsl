// Comparison in sorted order of two elements: NaN is above every number

bool comes_before(ACC a, ACC b, bool descending) {
    bool a_nan = a != a, b_nan = b != b;
    if (descending) return a > b || (a_nan && !b_nan);
    return a < b || (b_nan && !a_nan);
}

// Whether `a` goes before `b`, which it does if they are equal and it is `earlier`.
bool goes_first(ACC a, bool earlier, ACC b, bool descending) {
    return earlier ? !comes_before(b, a, descending) : comes_before(a, b, descending);
}
