"""Classes in the report, in bench and in inspect: what the head is, costs and is worth."""

import csv
import json

import numpy as np
import pytest

from commands import lbnn as command
from lbnn import nn as bnn
from lbnn.measure.counting import reference_layer_costs
from lbnn.measure.evaluation import score_on_data, table_for
from lbnn.model.file import read_model
from places import need
from reports import HOSTILE, Elements, report, save_classes, write_classes

CALIBRATED = {"level": 0.9, "false_alarms": 0.05, "rows": 77, "temperature": 1.5, "threshold": 0.25,
              "unsure_entropy": 0.9, "nll": [0.5, 0.4]}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    model = save_classes(folder, {"class_calibration": CALIBRATED, "unsure_entropy": 0.9})
    return report(model, folder / "report.html", data=write_classes(folder / "d.csv"))


def test_it_tells_what_the_classes_are_worth(page):
    elements = Elements(page)
    for word in ("3 classes", "accuracy", "NLL (nats)", "Brier score", "calibration error (ECE)", "area under the risk",
                 "temperature 1.500", "entropy of 0.9 nats", "at least 0.25", "for 90 % (77 rows)", "gait_classify(",
                 "Probability of", "idle, run, walk"):  # fmt: skip
        assert word in elements.text, word
    assert "interval" not in elements.text.split("Network")[0] and "RMSE" not in elements.text
    assert [tag for tag, _ in elements.tags].count("figure") == 3
    links = [v for _, attrs in elements.tags for k, v in attrs.items() if k in ("src", "href", "xlink:href")]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_the_scores_are_those_of_the_predictions(tmp_path):
    model, data = save_classes(tmp_path), write_classes(tmp_path / "d.csv")
    found = score_on_data(model, table_for(read_model(model), data, None), "d.csv", (), ()).scores
    assert command("predict", model, data, "-o", "o.csv", folder=tmp_path).status == 0
    with (tmp_path / "o.csv").open() as file:
        told = [row["class"] for row in csv.DictReader(file)]
    right = np.mean([told[i] == ("idle", "run", "walk")[i % 3] for i in range(60)])
    assert found.count == 60 and found.accuracy == pytest.approx(right)


def test_without_data_it_tells_what_the_file_knows(tmp_path):
    about = {"test": {"rows": 50, "accuracy": 0.875, "nll": 0.5, "brier": 0.25, "ece": 0.0625}}
    text = Elements(report(save_classes(tmp_path, about), tmp_path / "r.html")).text
    for word in ("0.875", "0.25", "0.0625"):
        assert word in text


def test_hostile_class_names_stay_text(tmp_path):
    names = (HOSTILE, "$x$", "*/ int", "a\nb")
    model = save_classes(tmp_path, {"class_calibration": CALIBRATED}, names)
    data = write_classes(tmp_path / "d.csv", ("$x$", "*/ int"))
    page = report(model, tmp_path / "r.html", data=data)
    assert "<script>alert" not in page and "onerror=alert(2)>" not in page.replace("&gt;", "")
    tags = [tag for tag, _ in Elements(page).tags]
    assert "img" not in tags and tags.count("script") == 2


@pytest.mark.parametrize(
    ("head", "names"), [(bnn.SigmoidHead(), ("x", "y", "z")), (bnn.SoftmaxHead("fast"), ("u", "v"))]
)
def test_other_heads_have_a_page_too(tmp_path, head, names):
    model = save_classes(tmp_path, names=names, head=head)
    assert "gait_classify(" in report(model, tmp_path / "r.html")
    inspected = command("inspect", model, "--json", folder=tmp_path)
    assert json.loads(inspected.stdout)["classes"] == list(names)


def test_labels_of_which_several_hold_are_refused_with_data(tmp_path):
    model = save_classes(tmp_path, head=bnn.SigmoidHead())
    words = ("report", model, "--data", write_classes(tmp_path / "d.csv"))
    command(*words, folder=tmp_path).refused("gives labels of which several may hold")


def test_the_head_is_part_of_what_is_counted(tmp_path):
    need("arm-none-eabi-gcc")
    model = save_classes(tmp_path)
    rows = reference_layer_costs(read_model(model))
    assert [row.layer for row in rows][-2:] == ["head", "checks"] and rows[-2].op == "softmax"
    head = rows[-2].instructions
    assert 5_000 < head < 30_000  # three classes
    done = command("bench", model, "--backends", "cortex-m4-gcc", "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert found["backends"][0]["instructions"] == sum(row["instructions"] for row in found["layers"])
    assert found["backends"][0]["plain"]["instructions"] < head
    shown = command("bench", model, "--backends", "cortex-m4-gcc", "--layers", folder=tmp_path)
    assert shown.status == 0 and "nan" not in shown.stdout
    ends = {line.split()[0]: line.split()[-2:] for line in shown.stdout.splitlines() if line.strip()}
    assert ends["head"] == ends["total"] == ["-", "-"]  # the least of the layers before is not that of the whole
    assert '<td class="n">-</td><td class="n">-</td></tr>' in report(model, tmp_path / "r.html")


def test_the_head_is_the_last_box_and_the_last_layer(page):
    graph, table = page.split("<h2>Network</h2>")[1].split("</svg>")[0], page.split("<tfoot>")[0].split("</tr>")[-2]
    assert graph.rindex(">softmax<") > graph.rindex(">linear<")
    assert [cell.split("<")[0] for cell in table.split("<td>")[1:4]] == ["head", "softmax", "probability[3]"]


def test_a_part_that_only_the_bound_exceeds_is_perhaps_large_enough(page, tmp_path):
    said = Elements(page).text
    assert (
        "perhaps: the bound for AVR is too large for it" in said and "lbnn verify MODEL.pt --backends uno does" in said
    )
    shown = command("inspect", save_classes(tmp_path), folder=tmp_path).stdout
    (uno,) = (line for line in shown.splitlines() if line.startswith("Arduino Uno  "))
    assert " perhaps " in uno and "Arduino Uno (perhaps)" in shown
    assert shown.splitlines()[-1].endswith("build it, as lbnn verify --backends uno does")
