/* One function for each kernel, prove_NAME; tools/check/prove.py gives them to EVA one by one. */
#include "prove.h"

#include "activation.c"
#include "conv.c"
#include "heads.c"
#include "linear.c"
#include "piecewise.c"
#include "maxpool.c"
#include "pointwise.c"
#include "pool.c"
#include "smooth.c"
#include "stream.c"
