// Draws by rejection: gamma distribution of scale 1, Poisson and binomial distributions
//
// Two uniform draws are the key of an element's own stream, of which each proposal takes a
// block. `float32` rounding decides some rejections, so devices may differ in rare draws.

#include "lib/philox.glsl"
#include "gamma.glsl"

const uint MOST_PROPOSALS = 64u;

uvec2 own_key(float u, float v) {
    return uvec2(floatBitsToUint(u), floatBitsToUint(v));
}

// Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000

float standard_gamma(float a, float u, float v) {
    if (!(a > 0.0)) return a == 0.0 ? 0.0 : NOT_A_NUMBER;
    uvec2 key = own_key(u, v), stream = uvec2(1u, 0u);
    bool is_small = a < 1.0;
    float d = (is_small ? a + 1.0 : a) - 1.0 / 3.0, c = inversesqrt(9.0 * d), cube = 1.0;
    // A proposal is taken with probability 0.95 or more.
    for (uint k = 0u; k < MOST_PROPOSALS; ++k) {
        float normal = random_normal(k, key, stream).x;
        float uniform_draw = 1.0 - random_uniform(k, key, stream).z;
        float root = fma(c, normal, 1.0);
        cube = root * root * root;
        float bound = 0.5 * normal * normal + d - d * cube + d * precise_log(cube);
        if (root > 0.0 && precise_log(uniform_draw) < bound) break;
    }
    float draw = d * cube;
    if (!is_small) return draw;
    float w = 1.0 - random_uniform(MOST_PROPOSALS, key, stream).x;
    return draw * precise_exp(precise_log(w) / a);
}

// By the product of uniform draws up to a rate of 10, above by Hormann, The Transformed
// Rejection Method for Generating Poisson Random Variables, 1993 (algorithm PTRS)
float poisson_draw(float rate, float u, float v) {
    if (!(rate >= 0.0) || rate > 3.4e38) return NOT_A_NUMBER;
    uvec2 key = own_key(u, v), stream = uvec2(2u, 0u);
    if (rate < 10.0) {
        float bound = precise_exp(-rate), product = 1.0, count = -1.0;
        for (uint k = 0u; k < MOST_PROPOSALS; ++k) {
            vec4 draws = 1.0 - random_uniform(k, key, stream);
            for (uint j = 0u; j < 4u; ++j) {
                product *= draws[j];
                count += 1.0;
                if (product < bound || bound == 1.0) return count;
            }
        }
        return count;
    }
    float b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    float log_inverse_alpha = precise_log(1.1239 + 1.1328 / (b - 3.4));
    float quick = 0.9277 - 3.6224 / (b - 2.0), count = floor(rate);
    for (uint k = 0u; k < MOST_PROPOSALS; ++k) {
        vec4 draws = random_uniform(k, key, stream);
        float w = draws.x - 0.5, other = 1.0 - draws.y, edge = 0.5 - abs(w);
        float proposal = floor(fma(2.0 * a / edge + b, w, rate + 0.43));
        bool inside = proposal >= 0.0 && !(edge < 0.013 && other > edge);
        if (edge >= 0.07 && other <= quick) return proposal;
        if (!inside) continue;
        float tested = precise_log(other) + log_inverse_alpha;
        tested -= precise_log(a / (edge * edge) + b);
        // -rate + n log(rate) - log(n!), by Stirling's formula where n is large
        float n = proposal, chance = n * precise_log(rate) - rate - precise_lgamma(n + 1.0);
        if (n >= 8.0) {
            chance = n * log1p_less((rate - n) / n) - stirling_tail(n);
            chance -= 0.5 * precise_log(6.28318531 * n);
        }
        if (tested <= chance) return n;
    }
    return count;
}

// The logarithm of the probability of k successes of `count`, in the form of Loader, Fast
// and Accurate Computation of Binomial Probabilities, 2000
float binomial_log_chance(float count, float prob, float k) {
    float rest = count - k;
    if (!(k > 0.0)) return count * precise_log1p(-prob);
    if (!(rest > 0.0)) return count * precise_log(prob);
    float apart = fma(count, prob, -k);
    float sum = k * log1p_less(apart / k) + rest * log1p_less(-apart / rest);
    sum += stirling_tail(count) - stirling_tail(k) - stirling_tail(rest);
    return sum + 0.5 * precise_log(count / k / (6.28318531 * rest));
}

// The successes of trials of which few succeed, by the trials from one to the next
float binomial_by_waits(float count, float rare, uvec2 key, uvec2 stream) {
    float step = precise_log1p(-rare), passed = 0.0, found = 0.0;
    for (uint k = 0u; k < MOST_PROPOSALS; ++k) {
        vec4 draws = 1.0 - random_uniform(k, key, stream);
        for (uint j = 0u; j < 4u; ++j) {
            passed += max(ceil(precise_log(draws[j]) / step), 1.0);
            if (passed > count) return found;
            found += 1.0;
        }
    }
    return found;
}

// Hormann, The Generation of Binomial Random Variates, 1993 (algorithm BTRS)
float binomial_by_rejection(float count, float rare, uvec2 key, uvec2 stream) {
    float deviation = sqrt(count * rare * (1.0 - rare));
    float b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * rare;
    float quick = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation;
    float mode = floor((count + 1.0) * rare);
    float most = binomial_log_chance(count, rare, mode);
    for (uint k = 0u; k < MOST_PROPOSALS; ++k) {
        vec4 draws = random_uniform(k, key, stream);
        float w = draws.x - 0.5, other = 1.0 - draws.y, edge = 0.5 - abs(w);
        float proposal = floor(fma(2.0 * a / edge + b, w, fma(count, rare, 0.5)));
        if (!(proposal >= 0.0 && proposal <= count)) continue;
        if (edge >= 0.07 && other <= quick) return proposal;
        float tested = precise_log(other * alpha / (a / (edge * edge) + b));
        if (tested <= binomial_log_chance(count, rare, proposal) - most) return proposal;
    }
    return mode;
}

float binomial_draw(float count, float prob, float u, float v) {
    if (count <= 0.0 || prob <= 0.0) return 0.0;
    if (prob >= 1.0) return count;
    if (!(prob < 1.0 && count < 3.4e38)) return NOT_A_NUMBER;
    uvec2 key = own_key(u, v), stream = uvec2(3u, 0u);
    float rare = min(prob, 1.0 - prob);
    float found = count * rare < 10.0 ? binomial_by_waits(count, rare, key, stream)
                                      : binomial_by_rejection(count, rare, key, stream);
    return prob > 0.5 ? count - found : found;
}
