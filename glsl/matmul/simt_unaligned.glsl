// Loads of matmul/gemm_simt_unaligned.comp, element by element

const uint UNIT = 1;  // elements that strides count
// Elements of a line of a tile.
const uint A_LENGTH = A_ALONG_K != 0 ? BLOCK_K : BLOCK_M;
const uint B_LENGTH = B_ALONG_K != 0 ? BLOCK_K : BLOCK_N;

// Neighbours read neighbours, so that a subgroup reads few lines at once: where the
// first element that this invocation reads lies in a tile, and by how much further the
// others, in lines and along them.
uvec2 first_place(uint length) {
    uint number = gl_LocalInvocationIndex % THREADS;
    return uvec2(number / length, number % length);
}

uvec2 further(uint i, uint length) {
    uint turns = max(length / THREADS, 1);  // that a line takes
    return uvec2(i / turns * (THREADS * turns / length), i % turns * THREADS);
}

// K index, within its step, of such an element.
uint depth_of(uint i, uint along_k, uint length) {
    uvec2 from = first_place(length), more = further(i, length);
    return along_k != 0 ? from.y + more.y : from.x + more.x;
}

#define A_PLACE first_place(A_LENGTH)
#define B_PLACE first_place(B_LENGTH)

// The elements that the first loads mask would lie before the operand and are not read.
#define FETCH_EACH(side, stage, along_k, length, loads, first)                         \
    [[unroll]] for (uint i = 0; i < 4 * (loads); ++i) {                                \
        uvec2 more = further(i, length);                                               \
        uint at = side##_from + step * side##_next + more.x * side##_stride + more.y;  \
        bool out_ = first && IN_K_TAIL(step, depth_of(i, along_k, length));             \
        NUMBER next = there ? Numbers(push.side).at[out_ ? 0 : at] : NUMBER(0);        \
        next_##side[NEXT(stage)][i / 4][i % 4] = out_ ? NUMBER(0) : next;              \
    }

#define STORE_STAGE_EACH(side, AT, stage, along_k, length, loads)                             \
    [[unroll]] for (uint i = 0; i < 4 * (loads); ++i) {                                \
        uvec2 from = first_place(length), more = further(i, length);                   \
        uvec2 to = along_k != 0 ? from.yx : from, on = along_k != 0 ? more.yx : more;  \
        tiles[AT(stage, to.x + on.x, to.y / 4 + on.y / 4)][to.y % 4] =                 \
            next_##side[NEXT(stage)][i / 4][i % 4];                                    \
    }

#define FETCH(stage, number, first)                                                    \
    {                                                                                  \
        uint step = (number) * K_SLICES + slice;                                       \
        bool there = UNEVEN_SLICES == 0 || step < steps;                               \
        FETCH_EACH(a, stage, A_ALONG_K, A_LENGTH, A_LOADS, first)                      \
        FETCH_EACH(b, stage, B_ALONG_K, B_LENGTH, B_LOADS, first)                      \
    }

#define STORE_STAGE(stage)                                                             \
    STORE_STAGE_EACH(a, A_AT, stage, A_ALONG_K, A_LENGTH, A_LOADS)                     \
    STORE_STAGE_EACH(b, B_IN, stage, B_ALONG_K, B_LENGTH, B_LOADS)
