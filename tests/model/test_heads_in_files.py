"""A head in the graph: traced, saved, loaded, listed, and refused where it makes no sense."""

import io

import pytest
import torch
from torch import nn

import lbnn
from lbnn import nn as bnn
from lbnn.base.errors import LbnnError
from lbnn.graph import GraphBuilder
from lbnn.graph.passes import prepare
from lbnn.graph.reference import classify, predict
from lbnn.model.file import serialise
from lbnn.model.schema import VERSION, parse
from lbnn.model.trace import trace

HEADS = {"softmax": bnn.SoftmaxHead(), "softmax_fast": bnn.SoftmaxHead("fast"), "sigmoid": bnn.SigmoidHead()}


def headed(head):
    torch.manual_seed(0)
    return bnn.Sequential(bnn.Linear(4, 5), bnn.ReLU(), bnn.Linear(5, 3), head)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_survives_saving_loading_and_saving_again(name, tmp_path):
    model, x = headed(HEADS[name]), torch.randn(6, 4)
    path = lbnn.save(model, tmp_path / "net.pt", input_shape=(4,))
    loaded = lbnn.load(path)
    for one, other in zip(tuple(model(x))[:4], tuple(loaded(x))[:4], strict=True):
        torch.testing.assert_close(one, other)
    assert serialise(loaded) == path.read_bytes()
    assert lbnn.read_model(path).graph.head == name
    assert str(lbnn.read_model(path).graph).splitlines()[0].endswith(f"-> {name}(2)")


@pytest.mark.parametrize("name", HEADS)
def test_the_reference_and_every_pass_keep_the_head(name):
    model, x = headed(HEADS[name]), torch.randn(6, 4)
    graph = trace(model, (4,))
    with torch.no_grad():
        out = model(x)
    for form in (graph, prepare(graph, False)):
        found = classify(form, predict(form, x.numpy()))
        for one, other in zip(tuple(found)[:4], tuple(out)[:4], strict=True):
            torch.testing.assert_close(torch.from_numpy(one), other.double(), atol=2e-6, rtol=0)
    assert classify(trace(headed(nn.Identity()), (4,)), predict(graph, x.numpy())) is None


def test_a_loaded_network_with_a_head_trains_on(tmp_path):
    loaded = lbnn.load(lbnn.save(headed(bnn.SoftmaxHead()), tmp_path / "net.pt", input_shape=(4,)))
    x = torch.randn(30, 4)
    result = lbnn.fit(loaded, (x, (x[:, 0] > 0).long()), epochs=3)
    assert len(result.loss) == 3


def contents(version, **graph):
    data = torch.load(io.BytesIO(serialise(headed(bnn.SoftmaxHead()), (4,))), weights_only=True)
    data["version"], data["graph"] = version, {**data["graph"], **graph}
    buffer = io.BytesIO()
    torch.save(data, buffer)
    return buffer.getvalue()


def test_a_file_without_a_head_is_of_the_first_version_and_one_with_a_head_of_the_second():
    versions = [
        torch.load(io.BytesIO(serialise(headed(head), (4,))), weights_only=True)["version"]
        for head in (nn.Identity(), bnn.SoftmaxHead())
    ]
    assert versions == [1, 2]
    assert parse(contents(2)).head == "softmax"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lambda: contents(1), "format version 1 does not know"),
        (lambda: contents(2, head="argmax"), "unknown head 'argmax'"),
        (lambda: contents(2, head=3), "head must be text"),
        (lambda: contents(2, head=None), "head must be text"),
        (lambda: contents(VERSION + 1), "update lbnn"),
    ],
)
def test_a_file_with_a_wrong_head_is_refused_in_one_line(data, says):
    with pytest.raises(LbnnError, match=says) as error:
        parse(data())
    assert "\n" not in str(error.value)


class Own(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.linear, self.head, self.run = bnn.Linear(2, 3), bnn.SoftmaxHead(), forward

    def forward(self, x):
        return self.run(self, x)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.head(self.linear(x)).probability,
        lambda self, x: self.head(self.linear(x)) + 1,
        lambda self, x: self.head(self.linear(x))[0],
        lambda self, x: bnn.ReLU()(self.head(self.linear(x))),
        lambda self, x: self.head(self.head(self.linear(x))),
        lambda self, x: tuple(self.head(self.linear(x))),
    ],
)
def test_a_head_must_be_the_last_thing_that_forward_does(forward):
    with pytest.raises(LbnnError, match="the last thing that forward does"):
        trace(Own(forward), (2,))


def test_a_head_needs_a_vector_of_logits():
    with pytest.raises(LbnnError, match="2 or more logits"):
        trace(bnn.Sequential(bnn.Linear(4, 1), bnn.SoftmaxHead()), (4,))
    with pytest.raises(LbnnError, match="a vector"):
        trace(bnn.Sequential(bnn.ReLU(), bnn.SigmoidHead()), (3, 4, 4))
    with pytest.raises(LbnnError, match="unknown head"):
        GraphBuilder("net", (3,), True).finish("input", "argmax")


def test_sampled_networks_are_compared_by_their_logits():
    found = lbnn.montecarlo.monte_carlo(headed(bnn.SoftmaxHead()), torch.randn(3, 4), 500)
    assert found.one_pass.mean.shape == (3, 3)
    assert found.mean_error < 0.3
