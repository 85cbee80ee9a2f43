/* models.c: targets for NAME_predict of whole generated models; the models are those of MODELS in tools/check/fuzz.py.
 *
 * Weights need no check: they are const, and a write to them is a crash. */
#include "fuzz.h"

#include "mlp.h"
#include "zoo.h"
#include "zoo_moments.h"
#include "zoo_size.h"

/* One of the two functions is null. */
typedef struct {
    int inputs, outputs, work;
    lbnn_status (*of_points)(const float *, float *, float *, float *);
    lbnn_status (*of_moments)(const float *, const float *, float *, float *, float *);
} model;

/* The pointers of a call; one of them may be null. */
typedef struct {
    const float *input, *input_variance;
    float *mean, *variance, *work;
} arguments;

static lbnn_status predict(const model *m, arguments a)
{
    return m->of_moments ? m->of_moments(a.input, a.input_variance, a.mean, a.variance, a.work)
                         : m->of_points(a.input, a.mean, a.variance, a.work);
}

static int right_inputs(const model *m, arguments a)
{
    int right = 1;
    for (int i = 0; i < m->inputs; i++) {
        right = right && is_finite(a.input[i]);
        right = right && (!m->of_moments || (is_finite(a.input_variance[i]) && a.input_variance[i] >= 0.0f));
    }
    return right;
}

/* Now and then an argument is missing. */
static arguments without_one(fuzz *f, const model *m, arguments a)
{
    switch (fuzz_size(f, 0, 63)) {
        case 0: a.input = 0; break;
        case 1: a.mean = 0; break;
        case 2: a.variance = 0; break;
        case 3: a.work = 0; break;
        case 4: a.input_variance = m->of_moments ? 0 : a.input_variance; break;
        default: break;
    }
    return a;
}

static void fuzz_predict(fuzz *f, const model *m)
{
    const arguments full = {fuzz_means(f, m->inputs), m->of_moments ? fuzz_variances(f, m->inputs) : 0,
                            fuzz_output(f, m->outputs), fuzz_output(f, m->outputs), fuzz_output(f, m->work)};
    const arguments given = without_one(f, m, full);
    const int complete = given.input && given.mean && given.variance && given.work
                         && (!m->of_moments || given.input_variance);
    const lbnn_status status = predict(m, given);
    f->digest += (uint64_t)(int64_t)status;
    fuzz_expect(status == LBNN_OK || status == LBNN_ERROR_NULL || status == LBNN_ERROR_INPUT
                || status == LBNN_ERROR_OUTPUT, "an unknown status");
    fuzz_expect((status == LBNN_ERROR_NULL) == !complete, "LBNN_ERROR_NULL means that a pointer is null");
    if (complete) {
        fuzz_expect((status == LBNN_ERROR_INPUT) == !right_inputs(m, full), "LBNN_ERROR_INPUT means a bad input");
    }
    if (status != LBNN_OK) {
        fuzz_untouched(f, full.mean, m->outputs);
        fuzz_untouched(f, full.variance, m->outputs);
        return;
    }
    for (int i = 0; i < m->outputs; i++) {
        fuzz_expect(is_finite(full.mean[i]) && is_finite(full.variance[i]), "LBNN_OK and a result that is not finite");
        fuzz_variance(f, full.variance[i], real_unknown(0));
        fuzz_mean(f, full.mean[i], real_unknown(0));
    }
}

static void fuzz_mlp(fuzz *f)
{
    const model m = {MLP_INPUT_LEN, MLP_OUTPUT_LEN, MLP_WORK_LEN, mlp_predict, 0};
    fuzz_predict(f, &m);
}

static void fuzz_zoo(fuzz *f)
{
    const model m = {ZOO_INPUT_LEN, ZOO_OUTPUT_LEN, ZOO_WORK_LEN, zoo_predict, 0};
    fuzz_predict(f, &m);
}

static void fuzz_zoo_moments(fuzz *f)
{
    const model m = {ZOO_MOMENTS_INPUT_LEN, ZOO_MOMENTS_OUTPUT_LEN, ZOO_MOMENTS_WORK_LEN, 0, zoo_moments_predict};
    fuzz_predict(f, &m);
}

static void fuzz_zoo_size(fuzz *f)
{
    const model m = {ZOO_SIZE_INPUT_LEN, ZOO_SIZE_OUTPUT_LEN, ZOO_SIZE_WORK_LEN, 0, zoo_size_predict};
    fuzz_predict(f, &m);
}

const fuzz_target fuzz_models[] = {
    {"predict_mlp", fuzz_mlp},
    {"predict_zoo", fuzz_zoo},
    {"predict_zoo_moments", fuzz_zoo_moments},
    {"predict_zoo_size", fuzz_zoo_size},
    {0, 0},
};
