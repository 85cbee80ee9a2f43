"""The table of forms: its networks have the variances that their names say, and a form that is lacking has dashes."""

import forms_table
from forms_table import FORMS, INT8, INT8_RANK1, M4, Form, built, lowered, row
from lbnn.base.errors import LbnnError
from places import need


def forms_of_layers(form):
    program = lowered(built("m1", form.variance), form)
    return {name.partition("_")[2].rpartition("_")[2] for name in (array.name for array in program.weights)}


def test_free_sigmas_are_stored_and_factors_are_not():
    assert "sigma" in forms_of_layers(INT8) and "sigma" not in forms_of_layers(INT8_RANK1)


def test_a_row_has_bytes_instructions_and_errors():
    need("arm-none-eabi-gcc")
    title, weights, code, work, count, *errors = row("m1", INT8_RANK1, (M4,), 16)
    assert title == "M1, int8, rank-1" and all(int(cell.replace(",", "")) > 0 for cell in (weights, code, work, count))
    assert 0.0 < float(errors[0]) < 1e-3 and " to " in errors[3]


def test_a_network_that_a_form_lacks_has_dashes(monkeypatch):
    def lacking(model, options):
        raise LbnnError("op 'conv' has no integer kernel; export with --dtype float32")

    monkeypatch.setattr(forms_table, "lower", lacking)
    assert row("m1", Form("int8", "full", {"dtype": "int8"}), (M4,), 16)[1:] == ["-"] * 8


def test_every_form_is_there_once():
    assert [form.title for form in FORMS] == [
        *("float32", "float32, rank-1", "half floats"),
        *("int8", "int8, rank-1", "int16", "int16, rank-1"),
    ]
