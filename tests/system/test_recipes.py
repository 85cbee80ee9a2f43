"""The recipes of the docs can be followed: every block says where it goes, and what it goes beside is there.

`make recipes` follows them to the end, commands included.
"""

import re
from pathlib import Path

import pytest

from follow_recipes import Recipe, RecipeError, follow, follow_in, parse, read_recipes, strangers
from places import ROOT

RECIPES = read_recipes()
TITLES = (
    *("An operator", "A layer", "An arithmetic", "An export target", "A command"),
    *("Adding a board", "Adding a core", "Adding a core family"),
)


def test_there_is_a_recipe_for_everything_that_can_be_added():
    assert tuple(recipe.title for recipe in RECIPES) == TITLES


def edits(recipe: Recipe) -> dict[str, str]:
    """What the recipe leaves in each file that it touches; the tree stays as it is."""
    files: dict[str, str] = {}

    def read(file: str) -> str | None:
        path = ROOT / file
        return files.get(file) or (path.read_text() if path.is_file() else None)

    assert len(list(follow(recipe, read, files.__setitem__))) == len(recipe.blocks)
    return files


@pytest.mark.parametrize("recipe", RECIPES, ids=TITLES)
def test_every_edit_fits_the_tree_and_every_command_names_files_that_exist(recipe: Recipe):
    changed = edits(recipe)
    assert changed and strangers(recipe) == []
    for file, text in changed.items():
        if file.endswith(".py"):
            compile(text, file, "exec")


@pytest.mark.parametrize("recipe", RECIPES, ids=TITLES)
def test_every_recipe_ends_with_tests_and_lint(recipe: Recipe):
    last = recipe.blocks[-1]
    assert last.action == "run" and re.search(r"^pytest ", last.text, re.M) and last.text.endswith("make lint\n")


# ---- the tool itself -------------------------------------------------------------------------------

PAGE = """# Page

    a block that is no part of a recipe

## A thing

1. **First.** Write `new.txt`:

   ```text
   one
     two
   ```
2. **Then**, over
   two lines. In `old.txt`, SENTENCE:

   ```text
   more
   ```

   ```sh
   COMMAND
   ```
"""
OLD = "first a\nthen b\nagain b\nlast c\n"


def thing(sentence: str = "below `first a`", command: str = "true") -> Recipe:
    (recipe,) = parse(PAGE.replace("SENTENCE", sentence).replace("COMMAND", command), "page.md")
    return recipe


@pytest.mark.parametrize(
    ("sentence", "after"),
    [
        ("below `first a`", "first a\nmore\nthen b\nagain b\nlast c\n"),
        ("above `last c`", "first a\nthen b\nagain b\nmore\nlast c\n"),
        ("in place of `then`", "first a\nmore\nagain b\nlast c\n"),
        ("below the first `b`", "first a\nthen b\nmore\nagain b\nlast c\n"),
        ("below the last ` b`", "first a\nthen b\nagain b\nmore\nlast c\n"),
        ("well. At the end of `old.txt`", OLD + "\nmore\n"),
    ],
)
def test_a_block_goes_where_the_sentence_says(sentence: str, after: str, tmp_path: Path):
    (tmp_path / "old.txt").write_text(OLD)
    assert len(list(follow_in(tmp_path, thing(sentence)))) == 3
    assert (tmp_path / "old.txt").read_text() == after
    assert (tmp_path / "new.txt").read_text() == "one\n  two\n"


@pytest.mark.parametrize(
    ("sentence", "command", "message"),
    [
        ("below `d`", "true", r"page.md:16: A thing, step 2: 0 lines of old.txt hold 'd'"),
        ("below `b`", "true", r"A thing, step 2: 2 lines of old.txt hold 'b'"),
        ("somewhere", "true", r"A thing, step 2: the sentence above the block does not say where it goes"),
        ("new. Write `old.txt`", "true", r"A thing, step 2: old.txt exists already"),
        ("or rather: At the end of `gone.txt`", "true", r"A thing, step 2: gone.txt does not exist"),
        ("below `first a`", "echo said; false; true", r"page.md:20: A thing, step 2: exit status 1\n(.*\n)*said"),
        ("below `first a`", "false | true", r"A thing, step 2: exit status 1"),
    ],
)
def test_a_step_that_cannot_be_followed_is_named(sentence: str, command: str, message: str, tmp_path: Path):
    (tmp_path / "old.txt").write_text(OLD)
    with pytest.raises(RecipeError, match=message):
        list(follow_in(tmp_path, thing(sentence, command)))


def test_a_recipe_that_has_been_followed_changes_nothing_more(tmp_path: Path):
    (tmp_path / "old.txt").write_text(OLD)
    for _ in range(2):
        list(follow_in(tmp_path, thing("in place of `then`")))
    assert (tmp_path / "old.txt").read_text() == "first a\nmore\nagain b\nlast c\n"


def test_a_file_that_only_a_command_names_is_missed():
    assert strangers(thing(command="pytest tests/system/test_recipes.py lbnn/gone.py -k 'x/y'")) == [
        "page.md:20: A thing, step 2: lbnn/gone.py"
    ]


def test_commands_run_in_the_tree_with_its_package_and_the_tools_of_this_python(tmp_path: Path):
    (tmp_path / "old.txt").write_text(OLD)
    (tmp_path / "lbnn").mkdir()
    (tmp_path / "lbnn/__init__.py").touch()
    *_, (_, log) = follow_in(tmp_path, thing(command="cat new.txt && python -c 'import lbnn; print(lbnn.__file__)'"))
    assert "one\n  two\n" in log and str(tmp_path / "lbnn/__init__.py") in log
