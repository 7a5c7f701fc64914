// Loads of matmul/gemm_coopmat_decoded.comp: vectors of a, and pieces of quantized weights,
// decoded on their way into shared memory
//
// K is in the order of the pieces, which vectors of a follow; steps are whole pieces.

const uint UNIT = WIDTH;
const uint STEPS_IN_REGISTERS = 1;
const uint L2_PREFETCHES = 0;

const uint PIECE_VECTORS = PIECE / WIDTH;
const uint LINE_PIECES = BLOCK_K / PIECE;
const uint PIECES = BLOCK_N * LINE_PIECES / THREADS;

#define REGISTERS                                                                      \
    uvec4 next_a[A_LOADS];                                                             \
    Piece next_b[PIECES];                                                              \
    uint a_lines = (first_row + a_line) * a_stride, a_in_step = a_vector;              \
    uint b_piece = thread % LINE_PIECES, b_own = thread / LINE_PIECES;                 \
    uint b_lines[PIECES];                                                              \
    [[unroll]] for (uint i = 0; i < PIECES; ++i)                                       \
        b_lines[i] = (matrix * push.b_batch + first_column + b_own                     \
            + i * (THREADS / LINE_PIECES)) * push.b_stride;                            \
    uint first_piece = part * depth / PIECE, table = push.table;

#define ALIGN_OPERANDS()
#define FETCHED(x, i) next_##x[i]

#define STORE_RIGHT(stage)                                                             \
    [[unroll]] for (uint i = 0; i < PIECES; ++i)                                       \
        [[unroll]] for (uint v = 0; v < PIECE_VECTORS; ++v)                            \
            tiles[stage + B_START + (b_own + i * (THREADS / LINE_PIECES)) * B_PITCH    \
                + b_piece * PIECE_VECTORS + v] = elements(next_b[i], v);

#define PREFETCH_NEXT(tile)                                                            \
    {                                                                                  \
        uint piece = first_piece + (tile) * LINE_PIECES;                               \
        uint place = vector_place(                                                     \
            piece + a_in_step / PIECE_VECTORS, a_in_step % PIECE_VECTORS);             \
        [[unroll]] for (uint i = 0; i < A_LOADS; ++i)                                  \
            next_a[i] = a.at[a_lines + i * a_step + place];                            \
        [[unroll]] for (uint i = 0; i < PIECES; ++i)                                   \
            next_b[i] = fetch(b, b_lines[i], piece + b_piece, table);                  \
    }

#define READ_FIRST_STEP() PREFETCH_NEXT(0)
#define PREFETCH_L2()
