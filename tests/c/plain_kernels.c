/* The kernels of a plain network, for tests that need no others: they compile in half of the time. */
#define LBNN_EXPECT_ABI 3
#include "lbnn_activation.h"
#include "lbnn_conv.h"
#include "lbnn_conv_small.h"
#include "lbnn_linear.h"
#include "lbnn_pointwise.h"
#include "lbnn_pool.h"
#include "lbnn_pool_correlated.h"
