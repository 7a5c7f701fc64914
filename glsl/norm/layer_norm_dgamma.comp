// Gradients of a norm by weight and bias (dgamma, dbeta): column sums over rows
// grid    one invocation per chunk of rows and column, linear
// in      FIRST: grad, x (rows, count) T; mean, if CENTRED, and inverse_std (rows) of
//         ACC, or (count) if BY_COLUMN; otherwise partial_products, partial_sums of an
//         earlier pass
// out     products: of grad * (x - mean) * inverse_std; sums: of grad; both (chunks,
//         count) of ACC
// consts  FIRST: of the passes; CENTRED: as in norm/layer_norm.comp; BY_COLUMN: batch
//         norm, whose statistics are of columns
// source  derivative of norm/layer_norm.comp, summed in a fixed order
// lint    scalar-load: neighbours take neighbouring columns
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint CENTRED = 1;
layout(constant_id = 4) const uint FIRST = 1;
layout(constant_id = 5) const uint BY_COLUMN = 0;

layout(push_constant, std430) uniform Push {
    In grad;
    In x;
    AccIn mean;
    AccIn inverse_std;
    AccIn partial_products;
    AccIn partial_sums;
    AccOut products;
    AccOut sums;
    uint rows;
    uint count;
    uint chunk;
} push;

void main() {
    In grad = push.grad, x = push.x;
    AccIn means = push.mean, inverse_stds = push.inverse_std;
    AccIn partial_products = push.partial_products, partial_sums = push.partial_sums;
    uint rows = push.rows, count = push.count, chunk = push.chunk;
    uint invocation = linear_invocation();
    uint number = invocation / count;
    uint column = invocation - number * count;
    uint first = number * chunk;
    if (first >= rows && number > 0) return;

    ACC product = ACC(0), sum = ACC(0);
    ACC mean = ACC(0), inverse_std = ACC(1);
    if (FIRST != 0 && BY_COLUMN != 0) {
        mean = means.at[column];
        inverse_std = inverse_stds.at[column];
    }
    uint end = min(first + chunk, rows);
    for (uint row = first; row < end; ++row) {
        uint at = row * count + column;
        if (FIRST == 0) {
            product += partial_products.at[at];
            sum += partial_sums.at[at];
            continue;
        }
        if (BY_COLUMN == 0) {
            if (CENTRED != 0) mean = means.at[row];
            inverse_std = inverse_stds.at[row];
        }
        ACC value = load(grad, at);
        product = fma(value, (load(x, at) - mean) * inverse_std, product);
        sum += value;
    }
    push.products.at[invocation] = product;
    push.sums.at[invocation] = sum;
}
