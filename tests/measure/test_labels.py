"""Names and ranges of inputs."""

from dataclasses import replace

from lbnn.measure.labels import input_names, input_range, trained_how
from lbnn.model.file import read_model
from reports import network, save_named


def test_names_and_ranges_come_from_the_file_the_data_or_the_first_layer(tmp_path):
    named = read_model(save_named(tmp_path, 2, input_range=[[0.0, -1.0], [1.0, 5.0]]))
    assert input_names(named) == ("in0", "in1") and input_range(named, None) == [(0.0, 1.0), (-1.0, 5.0)]
    bare = read_model(network(2), (2,))
    assert input_names(bare) == ("x0", "x1") and input_range(bare, None) == [(-1.0, 7.0), (-1.0, 7.0)]
    for wrong in (3, [[0.0], [1.0]], [[0.0, 5.0], [1.0, 5.0]], [["a", "b"], [1, 2]], [[0.0, float("nan")], [1.0, 2.0]]):
        assert input_range(replace(bare, metadata={"input_range": wrong}), None) == [(-1.0, 7.0), (-1.0, 7.0)]


def test_how_scores_came_about_may_be_anything_in_a_file():
    assert trained_how({"test": {"how": 3}}) == trained_how({}) == "rows that were kept out of training"
    long = trained_how({"test": {"how": "cross-validation\n" * 99}})
    assert "\n" not in long and len(long) < 150
