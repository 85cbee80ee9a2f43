/* Every kernel on an example small enough to verify by hand; accuracy is tested from Python. */
#define LBNN_EXPECT_ABI 3
#include "lbnn_activation.h"
#include "lbnn_conv.h"
#include "lbnn_conv_small.h"
#include "lbnn_linear.h"
#include "lbnn_pointwise.h"
#include "lbnn_pool.h"
#include "lbnn_pool_correlated.h"

#include "check.h"

/* One output, two inputs: bias (1, 0.5), weights (2, 0.1) and (-3, 0.2); then the unused end. */
static const float weights[6 + LBNN_PACK - 1] = {1.0f, 0.5f, 2.0f, 0.1f, -3.0f, 0.2f};

static void test_linear(void)
{
    const float e[] = {4.0f, 5.0f};
    const float v[] = {0.25f, 1.0f};
    float mean, var;
    lbnn_linear(e, v, weights, &mean, &var, 2, 1);
    check_near("linear mean", mean, 1.0f + 8.0f - 15.0f, 1e-6f);
    check_near("linear variance", var, 0.5f + 16.25f * 0.1f + 0.25f * 4.0f + 26.0f * 0.2f + 1.0f * 9.0f, 1e-6f);
    lbnn_linear_point(e, weights, &mean, &var, 2, 1);
    check_near("linear_point variance", var, 0.5f + 16.0f * 0.1f + 25.0f * 0.2f, 1e-6f);
}

/* A 1x2 kernel over one row of three with padding 1 sees (0 a) (a b) (b c) (c 0). */
static void test_conv(void)
{
    static const lbnn_conv_shape shape = {1, 1, 3, 1, 1, 4, 1, 2, 1, 1, 0, 1, 1, 1, 1};
    const float e[] = {1.0f, 2.0f, 3.0f};
    const float v[] = {0.0f, 0.0f, 0.5f};
    float mean[4], var[4];
    lbnn_conv2d(e, v, weights, mean, var, &shape);
    check_near("conv left edge", mean[0], 1.0f - 3.0f, 1e-6f);
    check_near("conv inside", mean[1], 1.0f + 2.0f - 6.0f, 1e-6f);
    check_near("conv right edge", mean[3], 1.0f + 6.0f, 1e-6f);
    check_near("conv variance", var[3], 0.5f + 9.5f * 0.1f + 0.5f * 4.0f, 1e-6f);
    lbnn_conv2d_point(e, weights, mean, var, &shape);
    check_near("conv_point variance", var[3], 0.5f + 9.0f * 0.1f, 1e-6f);
}

/* Fast, small and general kernels agree on numbers that floats hold exactly. */
static void test_fast_conv(void)
{
    static const lbnn_conv_shape wide = {1, 3, 5, 2, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    static const lbnn_conv_shape deep = {2, 3, 5, 2, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 2};
    static const lbnn_conv_shape dot = {2, 3, 5, 2, 3, 5, 1, 1, 1, 1, 0, 0, 1, 1, 1};
    static const lbnn_conv_small_shape small = {1, 3, 5, 2, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    float e[30], v[30], w[40 + LBNN_PACK - 1], mean[30], var[30], fast_mean[30], fast_var[30], scratch[63];
    for (int i = 0; i < 30; i++) {
        e[i] = (float)(i % 7 - 3);
        v[i] = (float)(i % 5);
    }
    for (int i = 0; i < 40 + LBNN_PACK - 1; i++) {
        w[i] = (float)(i % 3);
    }
    lbnn_conv2d(e, v, w, mean, var, &wide);
    lbnn_conv2d_3x3(e, v, w, fast_mean, fast_var, &wide, scratch);
    check_true("conv2d_3x3", !memcmp(mean, fast_mean, sizeof mean) && !memcmp(var, fast_var, sizeof var));
    lbnn_conv2d_small(e, v, w, fast_mean, fast_var, &small);
    check_true("conv2d_small", !memcmp(mean, fast_mean, sizeof mean) && !memcmp(var, fast_var, sizeof var));
    lbnn_conv2d(e, v, w, mean, var, &deep);
    lbnn_depthwise_3x3(e, v, w, fast_mean, fast_var, &deep, scratch);
    check_true("depthwise_3x3", !memcmp(mean, fast_mean, sizeof mean) && !memcmp(var, fast_var, sizeof var));
    lbnn_conv2d(e, v, w, mean, var, &dot);
    lbnn_conv2d_1x1(e, v, w, fast_mean, fast_var, &dot, scratch);
    check_true("conv2d_1x1", !memcmp(mean, fast_mean, sizeof mean) && !memcmp(var, fast_var, sizeof var));
}

static void test_pool(void)
{
    /* three columns, ceil mode: the last window holds one column only */
    static const lbnn_pool_shape ceil_mode = {1, 2, 3, 1, 2, 2, 2, 2, 2, 0, 0, 1, 0};
    static const lbnn_pool_shape square = {1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 0};
    float e[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
    float v[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 3.0f};
    lbnn_avg_pool(e, v, e, v, &ceil_mode);
    check_near("avg_pool mean", e[0], 3.0f, 1e-6f);
    check_near("avg_pool mean of half a window", e[1], 4.5f, 1e-6f);
    check_near("avg_pool variance", v[0], 0.25f, 1e-6f);
    check_near("avg_pool variance of half a window", v[1], 1.0f, 1e-6f);
    float x[] = {1.0f, 2.0f, 3.0f, 6.0f};
    float y[] = {4.0f, 4.0f, 4.0f, 4.0f};
    lbnn_avg_pool_2x2(x, y, x, y, &square);
    check_near("avg_pool_2x2 mean", x[0], 3.0f, 1e-6f);
    check_near("avg_pool_2x2 variance", y[0], 1.0f, 1e-6f);
}

/* At E = 0, V = 1: E' = (1 - l) / sqrt(2 pi), V' = (1 + l^2) / 2 - E'^2. */
static void test_activation(void)
{
    float e[] = {0.0f, -2.0f, 30.0f, -30.0f};
    float v[] = {1.0f, 0.0f, 1.0f, 1.0f};
    lbnn_leaky_relu(e, v, 4, 0.5f);
    check_near("leaky_relu mean", e[0], 0.19947114f, 1e-6f);
    check_near("leaky_relu variance", v[0], 0.625f - 0.03978874f, 1e-6f);
    check_near("leaky_relu of a certain value", e[1], -1.0f, 1e-6f);
    check_near("variance of a certain value", v[1], 0.0f, 0.0f);
    check_near("leaky_relu far above zero", e[2], 30.0f, 1e-6f);
    check_near("variance far above zero", v[2], 1.0f, 1e-6f);
    check_near("leaky_relu far below zero", e[3], -15.0f, 1e-6f);
    check_near("variance far below zero", v[3], 0.25f, 1e-6f);
    float mean = 0.0f, var = 1.0f;
    lbnn_leaky_relu_clamped(&mean, &var, 1, 0.5f, 3.0f);
    check_near("the clamped form is exact inside the clamp", mean, 0.19947114f, 1e-6f);
    check_near("and so is its variance", var, 0.625f - 0.03978874f, 1e-6f);
    float x[] = {-2.0f, 2.0f};
    lbnn_leaky_relu_point(x, 2, 0.5f);
    check_true("leaky_relu_point", x[0] == -1.0f && x[1] == 2.0f);
}

static void test_pointwise(void)
{
    const float scale = -2.0f, shift = 1.0f;
    float e[] = {3.0f, 4.0f}, v[] = {0.5f, 1.0f}, point[] = {1.0f, 1.0f};
    lbnn_affine(e, v, &scale, &shift, 1, 2);
    check_true("affine", e[0] == -5.0f && v[0] == 2.0f && e[1] == -7.0f && v[1] == 4.0f);
    lbnn_affine_point(point, &scale, &shift, 1, 2);
    check_true("affine_point", point[0] == -1.0f && point[1] == -1.0f);
    lbnn_add(e, v, e, v, e, v, 2);
    check_true("add", e[0] == -10.0f && v[0] == 4.0f);
    lbnn_shift(e, v, point, e, v, 2);
    check_true("shift", e[0] == -11.0f && v[0] == 4.0f);
    lbnn_add_points(e, point, e, 2);
    check_true("add_points", e[0] == -12.0f);
    float joined[4] = {0.0f, 0.0f, 0.0f, 0.0f}, padded[4];
    lbnn_concat(e, joined + 1, 2, 1, 2);
    check_true("concat", joined[1] == e[0] && joined[3] == e[1] && joined[0] == 0.0f);
    lbnn_pad(e, padded, 1, 1, 2, 0, 0, 1, 1);
    check_true("pad", padded[0] == 0.0f && padded[1] == e[0] && padded[2] == e[1] && padded[3] == 0.0f);
    lbnn_lift(v, 2);
    check_true("lift", v[0] == 0.0f && v[1] == 0.0f);
    float features[] = {7.0f, 0.0f}, feature_var[] = {1.0f, 9.0f};
    lbnn_variance_head(features, feature_var, features, feature_var, 1);
    check_near("variance_head mean", features[0], 7.0f, 0.0f);
    check_near("variance_head variance", feature_var[0], 1.0f + 0.69314718f, 1e-6f);
    lbnn_variance_head_point(features, padded, padded + 1, 1);
    check_near("variance_head_point variance", padded[1], 0.69314718f, 1e-6f);
}

static void test_checks(void)
{
    const float huge = 3e38f;
    volatile float twice = 2.0f;
    float good[] = {0.0f, 1.0f}, bad[] = {0.0f, huge * twice}, negative[] = {0.0f, -1.0f}, mean[2], var[2];
    check_true("is_finite", lbnn_is_finite(negative, 2) && !lbnn_is_finite(bad, 2));
    check_true("is_variance", lbnn_is_variance(good, 2) && !lbnn_is_variance(negative, 2));
    check_true("emit", lbnn_emit(good, good, mean, var, 2) == LBNN_OK && mean[1] == 1.0f);
    check_true("emit of a bad variance", lbnn_emit(bad, negative, mean, var, 2) == LBNN_ERROR_OUTPUT && mean[1] == 1.0f);
    check_true("messages", !strcmp(lbnn_status_message(LBNN_OK), "ok"));
}

int main(void)
{
    test_linear();
    test_conv();
    test_fast_conv();
    test_pool();
    test_activation();
    test_pointwise();
    test_checks();
    return check_result();
}
