/* Written by train.py: the largest sigma to trust, in degrees, and readings in counts. */
#define SIGMA_LIMIT 0.68f
static const struct {
    const char *place;
    int         counts;
} readings[] = {
    {"room", 2048},
    {"cold room", 3000},
    {"freezer", 3640},
    {"warm", 1200},
    {"hot", 560},
    {"hotter than calibrated", 250},
    {"short circuit", 0},
    {"broken wire", 4095},
};
