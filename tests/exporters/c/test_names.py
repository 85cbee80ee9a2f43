"""Any text becomes a safe identifier, file name or comment."""

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from c_models import STRICT, run, sources
from lbnn.exporters.c import COptions, c_name, export_c
from lbnn.exporters.c.names import LONGEST_STRING, RESERVED, c_string, comment, identifiers
from lbnn.graph import GraphBuilder
from lbnn.model.file import Model
from places import need
from plans import gaussian

HOSTILE = [
    "../x; int main",
    "",
    "int",
    "3d",
    "a*/b",
    "a\nb",
    "日本",
    "__init__",
    "x" * 200,
    "a.b",
    "A-B",
    "??/",
    "math",
    "Math",
    "lbnn",
    "LBNN",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_become_plain_identifiers(text):
    name = c_name(text)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,47}", name)
    assert "__" not in name and not name.endswith("_") and name.lower() not in RESERVED
    assert not name.lower().startswith("lbnn")


KEYWORDS = "int double for static sizeof inline restrict class template namespace new delete nullptr alignas bool"
FILES = "math stdint string limits main arduino example_main con aux com1 lpt9"


@pytest.mark.parametrize("word", [*KEYWORDS.split(), *FILES.split()])
def test_words_of_c_and_cpp_and_names_of_headers_and_devices_get_a_prefix(word):
    assert c_name(word) == f"model_{word}" and c_name(word.upper()) == f"model_{word.upper()}"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=60), unique=True, max_size=8))
def test_different_names_stay_different_whatever_their_case(texts):
    names = identifiers(texts, "layer", taken=("predict",))
    assert len({name.lower() for name in names.values()} | {"predict"}) == len(texts) + 1
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in names.values())


def test_names_that_differ_in_case_alone_become_different():
    assert list(identifiers(["gas", "Gas", "GAS"], "layer").values()) == ["gas", "Gas_2", "GAS_3"]


def test_a_name_of_40_characters_is_kept_and_a_longer_one_is_cut_to_40_and_stays_different():
    """Nine of these are a digest of the whole, so that 31 of the text are left."""
    fits, long, other = "a" * 40, "a" * 41, "a" * 41 + "b"
    names = identifiers([fits, long, other], "layer")
    assert names[fits] == fits and len({*names.values()}) == 3
    assert all(re.fullmatch("a{31}_[0-9a-f]{8}", names[text]) for text in (long, other))
    assert identifiers(["a" * 30 + "_" + "b" * 30], "layer").popitem()[1].startswith("a" * 30 + "_")


@given(st.text())
def test_comments_stay_comments(text):
    assert re.fullmatch(r"[ -~]*", comment(text)) and not re.search(r"[*?\\\n]", comment(text))


def test_a_hostile_model_exports_to_safe_names_and_runs(tmp_path):
    need("gcc")
    builder = GraphBuilder("../x; int main", (2,), random=True)
    value = "input"
    for name in ("int", "predict", "selftest", "work", "*/ system();", "mean", "Mean", "3", "golden_mean"):
        value = builder.add(name, "linear", [value], params=dict(weight=gaussian(2, 2), bias=gaussian(2)))
    graph = builder.finish(value)
    options = COptions(command='lbnn export "../*/ x.pt" \\\n#include')
    folder = export_c(Model(graph, "0" * 64, graph.name, {}), tmp_path / "out", options)
    assert all(re.fullmatch(r"[\w.]+", path.name) for path in folder.iterdir())
    run("gcc", *STRICT, *(path.name for path in sources(folder, "x_int_main")), "-o", "a.out", "-lm", cwd=folder)
    assert "self-test: ok" in run(folder / "a.out")


@pytest.mark.parametrize(
    "text",
    [
        "plain text",
        'a "quote"',
        "back\\slash",
        "??/ trigraph",
        "ünïcode €",
        "100 %",
        "line\nbreak\0",
        "",
        "x" + "é" * 99,
        "\udcff",
    ],
)
def test_a_string_of_c_holds_the_text(tmp_path, text):
    (tmp_path / "s.c").write_text(f"#include <stdio.h>\nint main(void) {{ static const char s[] = {c_string(text)};\n"
                                  "return fwrite(s, 1, sizeof s - 1, stdout) != sizeof s - 1; }\n")  # fmt: skip
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-trigraphs"]
    subprocess.run(["cc", *strict, "s.c", "-o", "s"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "s"], capture_output=True, check=True).stdout.decode()
    whole = text.encode("utf-8", "backslashreplace").decode()
    assert whole.startswith(printed) and (printed == whole or 57 <= len(printed.encode()) <= LONGEST_STRING)
    assert c_string(text).isascii() and "\n" not in c_string(text)
