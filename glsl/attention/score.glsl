// Scores of attention: scaled dot products with the mask, after attention/arguments.glsl
//
// The includer has the constants CAUSAL and HAS_MASK, and lib/math/exponential.glsl.

float scale = all.scale;

// Whether the mask leaves all scores of queries and `count` keys as they are.
bool sees_all(uint own_query, uint first_key, uint count) {
    bool whole = HAS_MASK == 0 && first_key + count <= keys;
    if (CAUSAL == 0) return whole;
    bool before = first_key + count <= FIRST_QUERY + own_query + 1;
    return whole && before && WINDOW == 0;
}

// Score of a query and a key; -inf beyond the keys.
float score(float product, uint query, uint key, uint mask_at) {
    float result = CAPPED_TO(product * scale, CAP);
    uint row = min(query, queries - 1), column = min(key, keys - 1);
    if (HAS_MASK != 0)
        result += load(mask, mask_at + row * mask_row + column * mask_column);
    bool seen = key < keys && (CAUSAL == 0 || key <= FIRST_QUERY + query);
    seen = seen && key >= OLDEST(query);
    return seen ? result : -INFINITE;
}
