// Adaptive pooling bounds: part i of n covers the elements that lie, even partly,
// between i / n and (i + 1) / n of a dimension

uvec2 part_start(uvec2 part, uvec2 size, uvec2 parts) { return part * size / parts; }

uvec2 part_end(uvec2 part, uvec2 size, uvec2 parts) {
    return ((part + 1) * size - 1) / parts + 1;
}
