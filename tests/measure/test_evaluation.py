"""A model on data."""

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from reports import report, save_named


def test_data_in_another_shape_is_refused(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((20, 3)), y=np.ones(20))
    with pytest.raises(LbnnError, match="takes"):
        report(save_named(tmp_path), tmp_path / "r.html", data=tmp_path / "d.npz")
