"""The bar of a training."""

from trainings import fit, line, network


def test_the_progress_bar_shows_loss_and_validation_on_stderr_only_if_wanted(capsys):
    result = fit(network(), line(), epochs=2, validation=line(8), progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "2/2" in err
    assert f"loss {result.loss[-1]:.4f}" in err and f"{result.validation[-1][1]:.4f}" in err
    fit(network(), line(), epochs=2, progress=None)
    assert capsys.readouterr() == ("", "")
