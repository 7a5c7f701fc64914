// Parts that divide a dimension evenly: part i of n covers what lies, even partly,
// between i / n and (i + 1) / n of it

uvec2 part_start(uvec2 part, uvec2 size, uvec2 parts) { return part * size / parts; }

uvec2 part_end(uvec2 part, uvec2 size, uvec2 parts) {
    return ((part + 1) * size - 1) / parts + 1;
}
