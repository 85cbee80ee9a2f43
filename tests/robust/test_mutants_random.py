"""Each operator of the random mutants on small sources, the draw, the runner, the list of what nobody can observe."""

import subprocess
from collections import Counter

import pytest

from mutants import FAULTS
from mutants_c import c_edits, tokenize
from mutants_draw import AREAS, Mutant, draw, equivalents, files_of, is_fair, mutants_of, selections
from mutants_python import Edit, is_another_program, python_edits
from mutants_random import Results, outcome, run, show, try_mutant
from places import ROOT, need

PYTHON = {
    "a < b": {"a <= b", "a >= b"},
    "a is not None": {"a is None"},
    "a not in b": {"a in b"},
    "a + b": {"a - b", "a", "b"},
    "a / b": {"a * b", "a", "(b) / (a)"},
    "-a": {"a"},
    "not a": {"a"},
    "a and b": {"a or b", "a", "b"},
    "x[i]": {"x[i - 1]", "x[i + 1]"},
    "x[1:]": {"x[:]", "x[0:]", "x[2:]"},
    "f(a, b)": {"f(b, a)", "pass"},
    "np.any(x)": {"np.all(x)", "pass"},
    "min(x)": {"max(x)", "pass"},
    "(0, 2.0, True)": {"(1, 2.0, True)", "(0, 2.002, True)", "(0, 2.0, False)"},
    "a += b": {"a -= b", "pass"},
    "a if b else c": {"a if not (b) else c"},
    "if a:\n    b = c": {"if not (a):\n    b = c"},
}
C = {
    "x = a < b;": {"x = a <= b;", "x = a >= b;"},
    "x = a && !b;": {"x = a || !b;", "x = a && b;", "x = a ;"},
    "x = a + b * c;": {"x = a - b * c;", "x = a ;", "x = a + b / c;", "x = a + b ;"},
    "x = -a;": {"x = a;"},
    "x += a;": {"x -= a;", ""},
    "x = a[i];": {"x = a[i + 1];", "x = a[i - 1];"},
    "x = f(a, b);": {"x = f(b, a);"},
    "f(a);": {""},
    "x = a ? b : c;": {"x = a ? c : b;"},
    "x = 3 * y;": {"x = 2 * y;", "x = 4 * y;", "x = 3 / y;", "x = 3 ;"},
    "x = 0.5f;": {"x = 0.5005f;"},
    "x = 0.0f;": {"x = 1.0f;"},
    "x = 0x80u;": {"x = 0x81u;"},
}


@pytest.mark.parametrize("text", PYTHON)
def test_the_changes_of_a_piece_of_python(text):
    assert {edit.applied(text) for edit in python_edits(text) if is_another_program(text, edit)} == PYTHON[text]


@pytest.mark.parametrize("text", C)
def test_the_changes_of_a_piece_of_c(text):
    assert {edit.applied(f"{{ {text}")[2:] for edit in c_edits(f"{{ {text}")} == C[text]


@pytest.mark.parametrize(
    "text",
    [
        '"""Adds 1."""',
        "def f(x: tuple[int, 1] = y) -> Literal[2]: return x",
        "@dataclass(frozen=True)\nclass A: pass",
        'if a: raise ValueError(f"{1 + 2}" % 3)',
        "_SAMPLES = (1, 2)",
        "op(samples=(1, 2))",
        "KERNELS: dict[str, int] = {'a': 1}",
        "if TYPE_CHECKING:\n    a = 1",
        "a = zip(b, c, strict=True)",
        "a = values[name]",
        "é = 'ü'",
    ],
)
def test_what_no_test_could_hold_stays_in_python(text):
    edits = [edit for edit in python_edits(text) if edit.operator not in ("condition", "dropped statement")]
    assert [edit.new for edit in edits] in ([], ["c, b"])


def test_offsets_count_characters_where_a_line_has_more_bytes():
    (edit,) = (edit for edit in python_edits("'äöü', a < b") if edit.new == "<=")
    assert edit.applied("'äöü', a < b") == "'äöü', a <= b"


@pytest.mark.parametrize(
    "text",
    [
        "/* a + b */ // c < d\n",
        "#define A(x) ((x) + 1)\n",
        "#if A < \\\n 2\n#include <a>\n#endif\n\"a + 1\" '0';",
        "static const float *a;",
        "static float w[N];",
        "{% if model.size > 1 + 2 %}{# 3 < 4 #}{% endif %}",
        "static {{ a + 1 }}_len;",
        "void f(const float *a, int b);",
    ],
)
def test_comments_declarations_preprocessor_and_tags_stay_in_c(text):
    assert c_edits(text) == []


def test_a_tag_is_part_of_a_name_and_never_torn():
    text = "if (!f({{ m.n }}_a, b){% if v %} || g(a, {{ m.n }}){% endif %}) {"
    assert [token.text for token in tokenize(text)][3:6] == ["f", "(", "{{ m.n }}_a"]
    changed = [edit.applied(text) for edit in c_edits(text)]
    assert "if (!f(b, {{ m.n }}_a){% if v %} || g(a, {{ m.n }}){% endif %}) {" in changed
    assert all("{% if v %}" in new and "{% endif %}" in new for new in changed)


def test_a_draw_can_be_repeated_and_takes_from_every_area_alike():
    first, again, other = (draw(ROOT, 60, seed) for seed in (5, 5, 6))
    assert first == again and first != other
    assert Counter(mutant.area for mutant in first) == dict.fromkeys(AREAS, 10)
    assert draw(ROOT, 30, 5) == first[:30]
    assert all(is_fair(ROOT, mutant) for mutant in first)


def test_no_mutant_is_drawn_twice_and_a_small_area_ends():
    drawn = draw(ROOT, 10_000, 1, ("templates",))
    assert 100 < len(drawn) == len({(mutant.file, mutant.edit) for mutant in drawn}) < 1000


def test_every_area_has_files_and_every_file_tests_that_exist():
    for area in AREAS:
        for file in files_of(ROOT, area):
            tests = selections(Mutant(area, file, 1, Edit("", 0, 0, ""), "", ""))
            assert tests and all((ROOT / test.split()[0]).exists() for test in tests)
        assert files_of(ROOT, area)


# ---- running --------------------------------------------------------------------------------------------------


FORMULA = "lbnn/ops/affine.py"


def mutant_of(file, operator, old, new):
    (found,) = {
        mutant.listed(): mutant
        for area in AREAS
        if file in files_of(ROOT, area)
        for mutant in mutants_of(ROOT, file, area)
        if mutant.edit.operator == operator and (mutant.old.strip(), mutant.new.strip()) == (old, new)
    }.values()
    return found


def test_a_mutant_is_caught_in_a_copy_and_one_that_can_not_be_imported_is_refused():
    before = (ROOT / FORMULA).read_text()
    caught = try_mutant(ROOT, mutant_of(FORMULA, "sign", "return x * scale + shift", "return x * scale - shift"), True)
    assert (caught.verdict, caught.file) == ("caught", FORMULA) and caught.by.startswith("tests/ops/test_ops.py::")
    text = (ROOT / FORMULA).read_text()
    broken = Mutant("formulas", FORMULA, 1, Edit("", 0, len(text), "import no_such_module"), text, "")
    assert try_mutant(ROOT, broken, True).verdict == "refused"
    assert (ROOT / FORMULA).read_text() == before


def test_a_mutant_that_the_compiler_refuses_has_not_been_caught_by_a_test():
    need("gcc")
    header = "c_runtime/lbnn_pool.h"
    text = (ROOT / header).read_text()
    at = text.index("float sum = 0.0f;")
    assert try_mutant(ROOT, Mutant("kernels", header, 1, Edit("", at, at + 5, "flat"), "", "")).verdict == "refused"
    template = "codegen_templates/c/golden.j2"
    text = (ROOT / template).read_text()
    at = text.index("return 0;")
    broken = Mutant("templates", template, 1, Edit("", at, at + 6, "retour"), "", "")
    assert try_mutant(ROOT, broken, True).verdict == "refused"


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results.json"


def fake(verdicts):
    """Stands for try_mutant: gives one verdict after the other and remembers how often it was asked."""
    calls = []

    def answer(source, mutant, narrow):
        calls.append(mutant)
        return outcome(mutant, verdicts[len(calls) - 1], "a test")

    return calls, answer


def test_a_second_call_tries_what_is_missing_or_survived_and_shows_survivors_as_a_diff(results, monkeypatch, capsys):
    one, two, three = draw(ROOT, 3, 11, ("planner",))
    monkeypatch.setattr("mutants_random.equivalents", dict)
    calls, answer = fake(["caught", "survived", "survived", "hangs"])
    monkeypatch.setattr("mutants_random.try_mutant", answer)
    assert [row.verdict for row in run([one, two], Results(results), 1)] == ["caught", "survived"]
    outcomes = run([one, two, three], Results(results), 1)
    assert calls == [one, two, two, three] and [row.verdict for row in outcomes] == ["caught", "survived", "hangs"]
    show(outcomes)
    printed = capsys.readouterr().out
    assert f"survived: {two.file}:{two.line}: {two.edit.operator}\n-{two.old}\n+{two.new}" in printed
    assert "survived: " + one.file + f":{one.line}:" not in printed


def test_a_change_that_is_listed_as_equivalent_is_not_tried(results, monkeypatch):
    (mutant,) = draw(ROOT, 1, 11, ("planner",))
    monkeypatch.setattr("mutants_random.equivalents", lambda: {mutant.listed(): "because"})
    monkeypatch.setattr("mutants_random.try_mutant", None)
    (row,) = run([mutant], Results(results), 1)
    assert (row.verdict, row.by) == ("equivalent", "because")


def test_tests_are_seen_to_pass_again_when_any_file_has_changed(results, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    (tree / "a.py").write_text("a = 1")
    subprocess.run(["git", "add", "a.py"], cwd=tree, check=True)
    kept = Results(results, tree)
    kept.sound = {"tests/a.py"}
    kept.save()
    assert Results(results, tree).sound == {"tests/a.py"}
    (tree / "a.py").write_text("a = 2")
    assert Results(results, tree).sound == set()


# ---- what can't be observed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", equivalents(), ids=lambda entry: f"{entry[0]}: {entry[2]}")
def test_an_equivalent_change_is_one_that_the_operators_make_of_the_source_as_it_is(entry):
    file, old, new = entry
    assert (old, new) in {mutant.listed()[1:] for mutant in mutants_of(ROOT, file)}
    assert len(equivalents()[entry]) > 20  # a reason, not a word


def test_the_list_of_equivalent_changes_is_matched_by_text_wherever_it_stands(tmp_path):
    (tmp_path / "equivalent.txt").write_text("file a.py\n\nnobody looks\n-     a = b + c\n+     a = b\n")
    assert equivalents(tmp_path) == {("a.py", "a = b + c", "a = b"): "nobody looks"}
    (tmp_path / "a.py").write_text("\n\nif x:\n        a = b + c\n")
    assert ("a.py", "a = b + c", "a = b") in {mutant.listed() for mutant in mutants_of(tmp_path, "a.py")}
    assert (FAULTS / "equivalent.txt").is_file()
