"""The bound of float32 for max pooling: no backend leaves it, and moved inputs stay within it."""

import numpy as np
import pytest
from mpmath import mp

from largest import pair_moments
from lbnn import nn as bnn
from lbnn.base.moments import Moments
from lbnn.graph import GraphBuilder
from lbnn.graph.reference import evaluate
from lbnn.graph.rounding import bounds
from lbnn.graph.rounding_rules import RULES
from lbnn.measure.backends import BACKENDS
from lbnn.measure.samples import Samples
from lbnn.model.file import read_model


@pytest.mark.parametrize("backend", ["torch", "onnx", "c"])
@pytest.mark.parametrize("kernel", [2, 3])
def test_no_backend_leaves_the_bound_anywhere(kernel, backend):
    """Every |E1 - E2| / a from 0 to 13, variances of any size and proportion, some of them 0."""
    model = read_model(bnn.Sequential(bnn.MaxPool1d(kernel, padding=1)), (16, 12))
    rng = np.random.default_rng(4)
    var = 10.0 ** rng.uniform(-6.0, 6.0, (40, 16, 12)) * (rng.uniform(size=(40, 16, 12)) > 0.1)
    mean = np.cumsum(rng.uniform(-13.0, 13.0, var.shape) * np.sqrt(var), axis=-1)
    mean, var = mean.astype(np.float32), var.astype(np.float32)
    found = BACKENDS[backend].run(model, Samples(mean, var, ("grid",) * len(mean)))
    exact, bound = evaluate(model.graph, mean, var)[model.graph.output], bounds(model.graph, mean, var)
    for got, want, allowed in zip((found.mean, found.var), exact, bound[model.graph.output], strict=True):
        assert (np.abs(got.astype(np.float64).reshape(want.shape) - want) <= allowed).all()


@pytest.mark.parametrize("moved", [0.0, 1e-5, 0.3])
def test_a_pair_of_moved_inputs_stays_within_its_bound(moved):
    """`moved` of a standard deviation and of the variance, either way: also where that is not small."""
    builder = GraphBuilder("one", (1, 2), random=True)
    attrs = dict(kernel_size=(2,), stride=(2,), padding=(0,), dilation=(1,), ceil_mode=False)
    graph = builder.finish(builder.add("largest", "max_pool", ["input"], attrs))
    for gap, v, w in [
        (g, v, w) for g in (-6.0, -0.4, 0.0, 1.0, 7.0) for v, w in ((1.0, 1.0), (1e-3, 4.0), (9.0, 0.01))
    ]:
        x = Moments(np.array([[[gap, 0.0]]]), np.array([[[v, w]]]))
        error = Moments(moved * np.sqrt(x.var), moved * x.var)
        out = evaluate(graph, *x)["largest"]
        bound = RULES["max_pool"](graph.nodes[0], [x], [error], out)
        for signs in np.ndindex(2, 2, 2, 2):
            s = np.array(signs) * 2 - 1
            m, u = x.mean[0, 0] + s[:2] * error.mean[0, 0], x.var[0, 0] + s[2:] * error.var[0, 0]
            with mp.workdps(50):
                found = pair_moments((m[0], u[0]), (m[1], u[1]))
                off = [float(abs(f - mp.mpf(float(o[0, 0, 0])))) for f, o in zip(found, out, strict=True)]
            assert off[0] <= bound.mean[0, 0, 0] and off[1] <= bound.var[0, 0, 0], (gap, v, w, signs, off, bound)
