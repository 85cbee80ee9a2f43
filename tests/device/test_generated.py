"""A folder of generated C as a model: its files, its lengths and what its drivers are told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lbnn.base.errors import LbnnError
from lbnn.device.generated import GeneratedModel, read_generated
from tiny_net import write_net


def test_the_lengths_are_those_of_the_header(net: GeneratedModel) -> None:
    assert (net.input_len, net.output_len, net.work_len, net.work_bytes) == (3, 2, 6, 24)
    assert net.predict == "net_predict" and net.sources == [net.folder / "net.c"]


def test_the_bytes_of_the_work_memory_follow_its_elements(net: GeneratedModel) -> None:
    assert replace(net, element=np.dtype(np.int8)).work_bytes == 6
    assert replace(net, element=np.dtype(np.int16)).work_bytes == 12


def test_a_header_without_a_length_is_refused(tmp_path: Path) -> None:
    write_net(tmp_path)
    header = tmp_path / "net.h"
    header.write_text(header.read_text().replace("NET_WORK_LEN", "NET_OTHER_LEN"))
    with pytest.raises(LbnnError, match=r"net.h does not define the lengths of model net; export it again"):
        read_generated(tmp_path, "net")


def test_weights_in_a_file_of_their_own_are_compiled_too(tmp_path: Path) -> None:
    model = write_net(tmp_path)
    (tmp_path / "net_weights.S").write_text("")
    assert [path.name for path in model.sources] == ["net.c", "net_weights.S"]


def test_the_model_is_named_to_the_driver_by_flags(net: GeneratedModel) -> None:
    flags = ("-include", "net.h", "-DLBNN_MODEL=net", "-DLBNN_MODEL_UPPER=NET")
    assert net.driver_flags == flags
    assert replace(net, input_variance=True).driver_flags == (*flags, "-DLBNN_INPUT_VARIANCE")
