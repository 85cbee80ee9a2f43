/* Written by train.py: the largest sigma to trust. */
#define SIGMA_LIMIT 0.078f
