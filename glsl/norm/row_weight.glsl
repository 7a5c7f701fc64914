// Row weights: float32 vectors along the columns, for norm/row_registers.glsl

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Weights { vec4 at[]; };

// Weights of a vec4 of a row; undefined for elements outside of it.
vec4 load_weights(Weights weights, Row row, uint quad) {
    if (ENDS != 2) return weights.at[min(quad, row.quads - 1u)];
    AccIn each = AccIn(weights);
    vec4 found;
    for (uint lane = 0; lane < 4; ++lane) {
        uint element = element_at(row, quad, lane);
        found[lane] = each.at[element < row.count ? element : 0u];
    }
    return found;
}
