/* All kernels in one translation unit. With -DLBNN_KERNEL= they become a library that Python can call. */
#define LBNN_EXPECT_ABI 2
#include "lbnn_activation.h"
#include "lbnn_conv.h"
#include "lbnn_conv_small.h"
#include "lbnn_heads.h"
#include "lbnn_linear.h"
#include "lbnn_piecewise.h"
#include "lbnn_maxpool.h"
#include "lbnn_pointwise.h"
#include "lbnn_pool.h"
#include "lbnn_stream.h"
#include "lbnn_pool_correlated.h"
#include "lbnn_smooth.h"
