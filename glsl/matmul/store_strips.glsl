// Epilogue store of a GEMM through shared memory, by strips: the EDGE lines that
// a subgroup has of `push.out_`, in `tiles`, STRIP_PITCH vectors apart
//
// Elements have STORED_BYTES; with WIDE rows are whole vectors. With AS_BITS they are
// bfloat16 already: converting each took 5 percent of a GEMM of 1279 rows (NVIDIA H200,
// driver 580.159.04, 2026-11-22).

// Results are stored TOGETHER at a time, from `place` of a line that starts at `from`
// in shared memory.
#if defined(WIDE_STORES) && defined(BIAS) && !defined(EPILOGUE)
#define EACH_PASS [[unroll]]
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutVectors { uvec4 at[]; };
#if BYTES == 4 || defined(OUT_ACC)
#define WHOLE_SUMS
#endif
#ifdef WHOLE_SUMS
const uint TOGETHER = 4;
#else
const uint TOGETHER = 16 / BYTES;
#endif
vec4 sums(uint at, uint row, uint column, float bias) {
    return scaled_back(uintBitsToFloat(tiles[at]), row, column) + bias;
}
void store_results(uint row, uint column, uint from, uint place) {
    float bias = bias_of(row);
#ifdef WHOLE_SUMS
    uvec4 vector = floatBitsToUint(sums(from + place, row, column, bias));
#else
#if DTYPE == DTYPE_FLOAT16
#define PACK(values) uvec2(pack_float16(values.x, values.y), pack_float16(values.z, values.w))
#else
#define PACK(values) uvec2(pack_bfloat16(values.x, values.y), pack_bfloat16(values.z, values.w))
#endif
    vec4 left = sums(from + 2 * place, row, column, bias);
    vec4 right = sums(from + 2 * place + 1, row, column + 4, bias);
    uvec4 vector = uvec4(PACK(left), PACK(right));
#endif
    OutVectors(push.out_).at[result_at(row, column) / TOGETHER] = vector;
}
#elif defined(WIDE)
#define EACH_PASS [[unroll]]
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutVectors { uvec4 at[]; };
#if STORED_BYTES == 4 && DTYPE == DTYPE_BFLOAT16 && !defined(OUT_ACC)
const uint TOGETHER = 8;
uint two(uint first, uint second) {
    return to_bfloat16(uintBitsToFloat(first)) | to_bfloat16(uintBitsToFloat(second)) << 16;
}
uvec4 results(uint from, uint place) {
    uvec4 left = tiles[from + 2 * place], right = tiles[from + 2 * place + 1];
    return uvec4(two(left.x, left.y), two(left.z, left.w), two(right.x, right.y),
        two(right.z, right.w));
}
#else
const uint TOGETHER = 16 / STORED_BYTES;
uvec4 results(uint from, uint place) { return tiles[from + place]; }
#endif
void store_results(uint row, uint column, uint from, uint place) {
    uvec4 found = results(from, place);
#ifdef SCALED
    found = floatBitsToUint(scaled_back(uintBitsToFloat(found), row, column));
#endif
    OutVectors(push.out_).at[result_at(row, column) / TOGETHER] = found;
}
#elif defined(AS_BITS)
#define EACH_PASS [[unroll]]
const uint TOGETHER = 4;
layout(buffer_reference, std430, buffer_reference_align = 2) restrict writeonly
    buffer OutBits { uint16_t at[]; };
void store_results(uint row, uint column, uint from, uint place) {
    uvec4 words = tiles[from + place / 2];
    uvec2 halves = place % 2 == 0 ? words.xy : words.zw;
    [[unroll]] for (uint e = 0; e < TOGETHER; ++e)
        if (is_result(row, column + e))
            OutBits(push.out_).at[result_at(row, column + e)] =
                uint16_t(e % 2 == 0 ? halves[e / 2] & 0xffffu : halves[e / 2] >> 16);
}
#else
#define EACH_PASS
const uint TOGETHER = 4;
ACC4 product_of(uint row, uint column, uint from, uint place) {
    uvec4 words = tiles[from + place * STORED_BYTES / 4];
#if STORED_BYTES == 2
    uvec2 halves = place % 2 == 0 ? words.xy : words.zw;
    vec4 values = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
#elif IS_FLOAT
    vec4 values = scaled_back(uintBitsToFloat(words), row, column);
#else
    ACC4 values = ACC4(words);
#endif
#ifdef BIAS
    values += bias_of(row);
#endif
    return values;
}
void store_results(uint row, uint column, uint from, uint place) {
    ACC4 values = product_of(row, column, from, place);
#ifdef EPILOGUE
    epilogue(push.epilogue, result_at(row, column) / 4, values);
#else
    [[unroll]] for (uint e = 0; e < TOGETHER; ++e)
        if (is_result(row, column + e))
            store(push.out_, result_at(row, column + e), values[e]);
#endif
}
#endif
#ifdef GROUPS_OF_ROWS
uvec2 stored_rows;  // of the group that the workgroup has
#define IS_STORED(row) (row >= stored_rows.x && row < stored_rows.y)
#else
#define IS_STORED(row) true
#endif

#if defined(EPILOGUE_WORDS) && !defined(IMPLICIT_GEMM)
// What an epilogue reads is loaded for several vectors at a time: one after the other, the
// wait for each took longer than the products of a short K.
const uint AT_ONCE = 4;
void store_strip(uint strip, uint first_row, uint first_column) {
    const uint COUNT = EDGE * SUB_N / TOGETHER;
    [[dont_unroll]] for (uint i = 0; i < COUNT; i += SUBGROUP * AT_ONCE) {
        EpilogueWords words[AT_ONCE];
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
            uint at = i + k * SUBGROUP + lane;
            uint row = first_row + at / (SUB_N / TOGETHER);
            uint column = first_column + at % (SUB_N / TOGETHER) * TOGETHER;
            words[k] = epilogue_words(push.epilogue,
                result_at(min(row, push.m - 1), min(column, push.n - TOGETHER)) / 4);
        }
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
            uint at = i + k * SUBGROUP + lane;
            uint line = at / (SUB_N / TOGETHER), place = at % (SUB_N / TOGETHER);
            uint row = first_row + line, column = first_column + place * TOGETHER;
            bool is_stored = row < push.m && column < push.n && IS_STORED(row);
            if (is_stored && (COUNT % (SUBGROUP * AT_ONCE) == 0 || at < COUNT))
                epilogue(push.epilogue, result_at(row, column) / 4,
                    product_of(row, column, strip + line * STRIP_PITCH, place), words[k]);
        }
    }
}
#elif defined(IMPLICIT_GEMM) && !defined(WIDE_STORES) && !defined(EPILOGUE)
// Stores the result at `place` of a line that starts at `from` in shared memory.
void store_result(uint to, uint row, uint column, uint from, uint place) {
    uint word = tiles[from + place * STORED_BYTES / 16][place * STORED_BYTES / 4 % 4];
#ifdef AS_BITS
    OutBits(push.out_).at[to] = uint16_t(place % 2 == 0 ? word & 0xffffu : word >> 16);
#else
#if STORED_BYTES == 2
    float value = unpackHalf2x16(word)[place % 2];
#else
    float value = scaled_back(uintBitsToFloat(word), row, column);
#endif
#ifdef BIAS
    value += bias_of(row);
#endif
    store(push.out_, to, value);
#endif
}

// Neighbours of a line of pixels are stored at once, among them those of stride phases
// that are together. Where a column begins is computed once: for each result it took 54
// of a kernel's 237 us (2 by 2 taps with a stride of 2, 128 channels, 32 images of 56x56,
// float16, NVIDIA H200, driver 580.159.04, 2026-12-01).
void store_strip(uint strip, uint first_row, uint first_column) {
    for (uint at = lane; at < SUB_N * PHASES_TOGETHER; at += SUBGROUP) {
        uint place = at / PHASES_TOGETHER, own = at % PHASES_TOGETHER;
        uint column = first_column + place;
        if (column >= push.n) continue;
        uvec3 first = first_of(column);
        [[unroll]] for (uint line = 0; line < EDGE; line += PHASES_TOGETHER) {
            uint row = first_row + line + own;
            if (is_inside(first, row))
                store_result(at_row(first, row), row, column,
                    strip + (line + own) * STRIP_PITCH, place);
        }
    }
}
#else
void store_strip(uint strip, uint first_row, uint first_column) {
    const uint COUNT = EDGE * SUB_N / TOGETHER;
    EACH_PASS for (uint i = 0; i < COUNT; i += SUBGROUP) {
        uint at = i + lane;
        uint line = at / (SUB_N / TOGETHER);
        uint place = at % (SUB_N / TOGETHER);
        uint row = first_row + line;
        uint column = first_column + place * TOGETHER;
        // The first of neighbours may be out of bounds where others are not: see
        // conv/igemm_addressing.glsl.
        bool is_stored = row < push.m && column < push.n && IS_STORED(row);
        if (is_stored && (COUNT % SUBGROUP == 0 || at < COUNT))
            store_results(row, column, strip + line * STRIP_PITCH, place);
    }
}
#endif
