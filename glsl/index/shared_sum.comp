// Sums of rows by index, in shared memory: out[o, r, i] = base[o, r, i] + sum of
// source[o, e, i] where the index of (o, e, i) is r
// grid    one workgroup for each region of out_, of LINES outer ones, at most `span` rows
//         and COLUMNS of inner, linear over (outer, inner, rows)
// in      source, indices (outer, entries, inner); base (outer, rows, inner) if HAS_BASE;
//         strips: regions along inner; ranges: regions along rows, of `span` each; outer;
//         magic and shift divide by ranges, strips and entries
// out     out_ (outer, rows, inner) T; error: an index out of range
// consts  HAS_BASE; INDEX_WORDS, INDEX_SIGNED, FROM_END; LINES: 1 unless all rows are one
//         range and inner is 1; COLUMNS: a power of two; CELLS: results of a region, at
//         least; ITEMS: entries that an invocation loads at once
// macros  MERGES: invocations of a subgroup that have numbers of one result add them up first
// source  floats are exchanged until no other came between, so that their last bits
//         depend on the order; 2-byte floats are rounded once
// lint    divergent-barrier: a workgroup returns as a whole, if beyond the last region
// lint    atomic-in-loop: in shared memory; a number is exchanged until no other came
//         between
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#ifdef MERGES
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(constant_id = 3) const uint LINES = 1;
layout(constant_id = 4) const uint HAS_BASE = 0;
layout(constant_id = 7) const uint COLUMNS = 1;
layout(constant_id = 9) const uint CELLS = 256;
layout(constant_id = 10) const uint ITEMS = 4;

layout(push_constant, std430) uniform Push {
    In source;
    In base;
    Indices indices;
    Out out_;
    IndexSlot error;
    uint outer;
    uint rows;
    uint entries;
    uint inner;
    uint strips;
    uint ranges;
    uint span;
    uint magic[3];
    uint shift[3];
} args;

shared uint cells[CELLS];

#if IS_FLOAT
uint bits_of(ACC value) { return floatBitsToUint(value); }
ACC of_bits(uint bits) { return uintBitsToFloat(bits); }
void add_to(uint cell, ACC value) {
    uint found = cells[cell], expected;
    do {
        expected = found;
        found = atomicCompSwap(cells[cell], expected, bits_of(of_bits(expected) + value));
    } while (found != expected);
}
#else
uint bits_of(ACC value) { return uint(value); }
ACC of_bits(uint bits) { return ACC(bits); }
void add_to(uint cell, ACC value) { atomicAdd(cells[cell], bits_of(value)); }
#endif

const uint NONE = ~0u;

#ifdef MERGES
// Of numbers of one cell each exchange would wait for those before: gradients of running
// minima of 4096 x 4096, whose indices repeat, took 12 ms so, and 0.9 by atomics in memory
// (NVIDIA H200, driver 580.159.04, 2026-11-30).
const uint MERGED_CELLS = 2, LEAST_MERGED = 4;

void add_all(uint cell, ACC value) {
    [[unroll]] for (uint i = 0; i < MERGED_CELLS; ++i) {
        uint first = subgroupMin(cell);
        bool same = cell == first;
        if (first == NONE || subgroupAdd(same ? 1u : 0u) < LEAST_MERGED) break;
        ACC sum = subgroupAdd(same ? value : ACC(0));
        if (subgroupElect()) add_to(first, sum);
        if (same) cell = NONE;
    }
    if (cell != NONE) add_to(cell, value);
}
#else
void add_all(uint cell, ACC value) {
    if (cell != NONE) add_to(cell, value);
}
#endif

void main() {
    In source = args.source, base = args.base;
    Indices indices = args.indices;
    Out out_ = args.out_;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    uint block = divide(linear_workgroup(), args.magic[0], args.shift[0]);
    uint first_row = (linear_workgroup() - block * args.ranges) * args.span;
    uint group = divide(block, args.magic[1], args.shift[1]);
    uint first_column = (block - group * args.strips) * COLUMNS;
    if (group * LINES >= args.outer) return;
    uint lines = min(LINES, args.outer - group * LINES);
    uint span = min(args.span, rows - first_row), line_cells = span * COLUMNS;
    uint columns = min(COLUMNS, inner - first_column);

    // Cells are (line, row, column); with several lines a region has all rows.
    uint from = (group * LINES * rows + first_row) * inner + first_column;
    for (uint cell = gl_LocalInvocationIndex; cell < lines * line_cells;
         cell += gl_WorkGroupSize.x) {
        uint row = cell / COLUMNS, column = cell % COLUMNS;
        ACC value = ACC(0);
        if (HAS_BASE != 0 && column < columns)
            value = load(base, from + row * inner + column);
        cells[cell] = bits_of(value);
    }
    barrier();
    uint begin = group * LINES * entries * inner + first_column, bad = 0;
    uint count = lines * entries * COLUMNS, step = gl_WorkGroupSize.x;
    for (uint at = gl_LocalInvocationIndex; at < count; at += ITEMS * step) {
        uint targets[ITEMS];
        ACC values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint number = min(at + k * step, count - 1);
            uint entry = number / COLUMNS, column = number % COLUMNS;
            uint place = begin + entry * inner + min(column, columns - 1);
            uint line = LINES > 1 ? divide(entry, args.magic[2], args.shift[2]) : 0;
            int row = read_row(indices, place, rows, bad);
            uint within = uint(row) - first_row;
            bool is_own = row >= 0 && within < span && column < columns;
            is_own = is_own && at + k * step < count;
            targets[k] = is_own ? line * line_cells + within * COLUMNS + column : NONE;
            values[k] = load(source, place);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k)
            add_all(targets[k], values[k]);
    }
    barrier();
    for (uint cell = gl_LocalInvocationIndex; cell < lines * line_cells;
         cell += gl_WorkGroupSize.x) {
        uint row = cell / COLUMNS, column = cell % COLUMNS;
        if (column < columns)
            store(out_, from + row * inner + column, of_bits(cells[cell]));
    }
    if (bad != 0) args.error.at[0] = bad;
}
