// Unaligned operands of matmul/gemm_simt.comp, which are loaded element by element

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
