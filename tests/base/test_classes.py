"""Classes: rows, and what every field of them is turned into."""

import copy

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from lbnn import Classes, Moments, softmax_moments


def some(rows: int = 5) -> Classes[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return softmax_moments(Moments(torch.randn(rows, 3, generator=draw), torch.rand(rows, 3, generator=draw)))


def flat(out: Classes) -> list:
    return [out.probability, out.entropy, out.aleatoric, out.epistemic, out.logits.mean, out.logits.var]


@pytest.mark.parametrize(
    "rows", [0, -1, slice(1, 3), [0, 2], torch.tensor([True, False, True, False, False])], ids=repr
)
def test_an_index_takes_rows_of_every_field(rows):
    out, chosen = some(), some()[rows]
    assert isinstance(chosen, Classes) and isinstance(chosen.logits, Moments)
    for part, whole in zip(flat(chosen), flat(out), strict=True):
        assert torch.equal(part, whole[rows])
    assert torch.equal(chosen.label, out.label[rows])


def test_one_row_has_no_rows():
    with pytest.raises(IndexError, match="Classes of one row have no rows"):
        some()[0][0]


def test_numbers_leave_torch_and_change_their_dtype():
    out = some()
    logits = Moments(out.logits.mean.clone().requires_grad_(), out.logits.var)
    found = softmax_moments(logits)
    assert found.probability.requires_grad and not any(part.requires_grad for part in flat(found.detach()))
    assert all(part.dtype is torch.float64 for part in flat(found.to(torch.float64)))
    assert all(type(part) is np.ndarray for part in flat(found.numpy()))
    np.testing.assert_array_equal(found.numpy()[2].probability, found.probability[2].detach().numpy())
    assert all(type(part) is np.ndarray for part in flat(found.numpy().numpy()))


def test_it_is_a_tuple_of_its_fields_for_torch_and_python():
    out = some()
    probability, entropy, *_ = out
    assert probability is out.probability and entropy is out.entropy
    leaves, spec = pytree.tree_flatten(out)
    for again in (pytree.tree_unflatten(leaves, spec), copy.deepcopy(out)):
        assert isinstance(again, Classes) and all(map(torch.equal, flat(again), flat(out)))


def test_rows_are_taken_inside_a_compiled_function():
    torch._dynamo.reset()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(lambda x: softmax_moments(x)[1:3].entropy, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), softmax_moments(x).entropy[1:3])
