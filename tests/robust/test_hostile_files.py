"""Files from strangers: none runs code, hangs, takes memory it does not hold, or raises anything but LbnnError."""

import io
import os
import random
import resource
import sys
import time
import zipfile

import pytest
import torch

import lbnn
from lbnn import LbnnError
from lbnn import nn as bnn
from lbnn.model.file import serialise
from saved import refused

MUTANTS = 10_000
SLOWEST = 5.0  # seconds of processor time for one file
MEMORY = 200_000  # KiB that reading one small file may add to the peak


def good_bytes():
    torch.manual_seed(0)
    model = bnn.Sequential(bnn.Conv1d(1, 2, 3), bnn.BatchNorm(2), bnn.LeakyReLU(0.1), bnn.Flatten(), bnn.Linear(6, 1))
    return serialise(model, (1, 5), name="good", metadata={"units": ["V", 1.5, None, True]})


GOOD = good_bytes()


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(files, compression=zipfile.ZIP_STORED):
    """An archive with right checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def contents():
    return torch.load(io.BytesIO(GOOD), weights_only=True)


def saved(data):
    buffer = io.BytesIO()
    torch.save(data, buffer)
    return buffer.getvalue()


def refuse(tmp_path, data):
    return refused(tmp_path / "hostile.pt", data)


def test_the_untouched_file_is_read(tmp_path):
    (tmp_path / "good.pt").write_bytes(GOOD)
    assert lbnn.read_model(tmp_path / "good.pt").name == "good"
    (tmp_path / "again.pt").write_bytes(packed(members(GOOD)))
    assert lbnn.read_model(tmp_path / "again.pt").name == "good"
    (tmp_path / "torch.pt").write_bytes(saved(contents()))
    assert lbnn.read_model(tmp_path / "torch.pt").name == "good"


# Code


class Command:
    """Runs a command when it is unpickled by someone careless."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f'touch "{self.marker}"',)


def command_pickle(marker):
    return b"cos\nsystem\n(S'touch \"" + str(marker).encode() + b"\"'\ntR."


def careless_formats(marker):
    pickle = command_pickle(marker)
    yield pickle
    yield b"\x80\x02" + pickle
    yield packed({**members(GOOD), "archive/data.pkl": pickle})
    yield packed({"hostile/data.pkl": pickle, "hostile/version": b"3"})
    yield saved({"format": "lbnn", "version": 1, "metadata": Command(marker)})
    yield saved({**contents(), "metadata": {"x": Command(marker)}})
    yield saved(bnn.Sequential(bnn.Linear(1, 1)))
    legacy = io.BytesIO()
    torch.save({**contents(), "x": Command(marker)}, legacy, _use_new_zipfile_serialization=False)
    yield legacy.getvalue()


def test_a_pickle_that_would_run_a_command_does_not(tmp_path):
    marker = tmp_path / "executed"
    for data in careless_formats(marker):
        refuse(tmp_path, data)
    assert not marker.exists()
    torch.load(io.BytesIO(saved(Command(marker))), weights_only=False)
    assert marker.exists(), "the command works where pickles are trusted, so the test means something"


NAMES = ["os system", "builtins eval", "builtins bytearray", "torch.serialization load", "torch Tensor"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_not_even_name_anything_but_plain_tensors(tmp_path, name):
    pickle = b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n(M\x10\x27tR."
    message = refuse(tmp_path, packed({**members(GOOD), "archive/data.pkl": pickle}))
    assert f"is a file of torch.save, not of lbnn.save (refers to {name!r})" in message


def test_a_file_of_torch_save_is_told_what_to_use(tmp_path):
    network = torch.nn.Linear(2, 1)
    for data in (saved(network), saved(network.state_dict())):
        message = refuse(tmp_path, data)
        assert "is a file of torch.save, not of lbnn.save" in message
        assert "a model file is what lbnn.save(model, path, input_shape=...)" in message and "pickle" not in message


# Bombs


def with_tensor(tensor):
    data = contents()
    data["tensors"]["0.weight_mu"] = tensor
    return saved(data)


def lying_storage():
    """A storage that claims 2^30 elements for the bytes of six."""
    files = members(with_tensor(torch.zeros(6)))
    pickle = files["archive/data.pkl"]
    claim = b"X\x03\x00\x00\x00cpu"
    at = pickle.index(b"K\x06", pickle.index(claim))
    return packed({**files, "archive/data.pkl": pickle[:at] + b"J\x00\x00\x00\x40" + pickle[at + 2 :]})


def doubling_list(depth):
    nested = ["x" * 1000]
    for _ in range(depth):
        nested = [nested, nested]
    return nested


def deep_list(depth):
    nested = []
    for _ in range(depth):
        nested = [nested]
    return nested


def many_nodes(number):
    data = contents()
    node = {**data["graph"]["nodes"][2], "inputs": ["input"]}
    data["graph"]["nodes"] = [{**node, "name": f"é{i:x}"} for i in range(number)]
    data["graph"]["output"] = "é0"
    return data


def wide_value():
    data = contents()
    data["input_shape"] = [1, 2**40]
    return data


def wide_pad():
    data = contents()
    node = {"name": "p", "op": "pad", "inputs": ["input"], "params": {}, "training": {}}
    data["graph"] = {"output": "p", "nodes": [{**node, "attrs": {"padding": [[0, 2**31 - 1]]}}]}
    return data


def overlapping_members():
    """Two hundred names for one member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data/0", b"\0" * 100_000)
        for i in range(1, 200):
            info = zipfile.ZipInfo(f"a/data/{i}")
            first = archive.filelist[0]
            info.header_offset, info.CRC = 0, first.CRC
            info.file_size = info.compress_size = first.file_size
            archive.filelist.append(info)
    return buffer.getvalue()


BOMBS = {
    "compressed": lambda: packed({**members(GOOD), "archive/data/0": bytes(10**8)}, zipfile.ZIP_DEFLATED),
    "repeated elements": lambda: with_tensor(torch.zeros(1).expand(2**20, 2**20)),
    "one storage for many": lambda: saved(change(["tensors"], dict.fromkeys(map(str, range(500)), torch.zeros(999)))),
    "lying storage": lying_storage,
    "overlapping members": overlapping_members,
    "doubling list": lambda: saved({**contents(), "metadata": {"x": doubling_list(30)}}),
    "deep list": lambda: saved({**contents(), "metadata": {"x": deep_list(300)}}),
    "many nodes": lambda: saved(many_nodes(1_500)),
    "long listing": lambda: saved(many_nodes(30_000)),
    "wide input": lambda: saved(wide_value()),
    "wide pad": lambda: saved(wide_pad()),
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_before_it_costs_time_or_memory(tmp_path, make):
    data = make()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    refuse(tmp_path, data)
    assert time.process_time() - start < SLOWEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


def test_values_that_are_too_large_together_are_refused(tmp_path):
    data, node = contents(), {"op": "pad", "params": {}, "training": {}}
    pads = [{**node, "inputs": ["input"], "name": name, "attrs": {"padding": [[0, 2**27]]}} for name in "ab"]
    data["graph"] = {"output": "b", "nodes": pads}
    assert "elements in all" in refuse(tmp_path, saved(data))


def test_compressed_members_are_refused_whatever_they_hold(tmp_path):
    assert "has compressed members" in refuse(tmp_path, packed(members(GOOD), zipfile.ZIP_DEFLATED))


def test_many_names_that_are_written_alike_stay_fast(tmp_path):
    data = many_nodes(1_000)
    for i, node in enumerate(data["graph"]["nodes"]):
        node["name"] = "".join("éèàù"[i >> 2 * k & 3] for k in range(7))
    data["graph"]["output"] = data["graph"]["nodes"][-1]["name"]
    (tmp_path / "net.pt").write_bytes(saved(data))
    start = time.process_time()
    assert len(lbnn.read_model(tmp_path / "net.pt").graph.nodes) == 1_000
    assert time.process_time() - start < SLOWEST


# Fields


def change(path, value):
    """The good contents with one place changed; a path ends at a key or an index."""
    data = contents()
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


DELETED = object()
NODE = ("graph", "nodes", 0)
FIELDS = {
    "newer version": (("version",), 4, "format version 4, this lbnn reads up to 3; update lbnn"),
    "no version": (("version",), DELETED, "no valid format version"),
    "version as text": (("version",), "1", "no valid format version"),
    "version true": (("version",), True, "no valid format version"),
    "other format": (("format",), "onnx", "is not an lbnn model; write it with lbnn.save"),
    "format as tensor": (("format",), torch.zeros(2), "is not an lbnn model"),
    "no tensors": (("tensors",), DELETED, "field 'tensors' must be a dict"),
    "no metadata": (("metadata",), [1], "field 'metadata' must be a dict"),
    "name": (("name",), "x" * 2000, "name must be text of at most 1000 characters"),
    "input shape": (("input_shape",), [0], "input_shape must be the shape of one sample"),
    "graph": (("graph",), [], "field 'graph' must be a dict"),
    "nodes": (("graph", "nodes"), {}, "field 'nodes' must be a list"),
    "no output": (("graph", "output"), "nowhere", "its output 'nowhere' is not one of its values"),
    "node": (NODE, 3, "each node must be a dict"),
    "unknown op": ((*NODE, "op"), "gelu", "node '0': unknown operator 'gelu'; this version knows"),
    "dangling": ((*NODE, "inputs"), ["nothing"], "node '0': its input 'nothing' is not computed before it"),
    "cycle": ((*NODE, "inputs"), ["4"], "node '0': its input '4' is not computed before it"),
    "itself": ((*NODE, "inputs"), ["0"], "node '0': its input '0' is not computed before it"),
    "twice": (("graph", "nodes", 1, "name"), "0", "node '0': the name is used twice"),
    "input's name": (("graph", "nodes", 1, "name"), "input", "node 'input': the name is used twice"),
    "no input": ((*NODE, "inputs"), [], "node '0': conv takes 1 input(s), got 0"),
    "attribute missing": ((*NODE, "attrs"), {}, "node '0': conv takes the attributes"),
    "attribute added": (("graph", "nodes", 3, "attrs"), {"axis": 1}, "node '3': flatten takes the attributes []"),
    "zero stride": ((*NODE, "attrs", "stride"), [0], "node '0': conv: stride, dilation and groups must be at least 1"),
    "huge stride": ((*NODE, "attrs", "stride"), [2**40], "stride must be an integer from 0"),
    "text stride": ((*NODE, "attrs", "stride"), "11", "stride must be a list of one or two integers"),
    "negative padding": ((*NODE, "attrs", "padding"), [-1], "padding must be an integer from 0"),
    "groups": ((*NODE, "attrs", "groups"), 0, "must be at least 1"),
    "slope": (("graph", "nodes", 2, "attrs", "negative_slope"), 7.0, "negative_slope must be a number from 0 to 1"),
    "slope nan": (("graph", "nodes", 2, "attrs", "negative_slope"), float("nan"), "negative_slope must be a number"),
    "eps": (("graph", "nodes", 1, "attrs", "eps"), -1.0, "eps must be a number"),
    "momentum": (("graph", "nodes", 1, "training"), {}, "field 'training' does not fit"),
    "parameter missing": ((*NODE, "params"), {}, "node '0': conv needs the parameters ['weight', 'bias']"),
    "constant's bias": (("graph", "nodes", 1, "params", "bias"), DELETED, "node '1': batch_norm needs the parameters"),
    "rho missing": ((*NODE, "params", "weight"), {"mu": "0.weight_mu"}, "must name its tensors mu and rho"),
    "no such tensor": ((*NODE, "params", "weight", "mu"), "w", "node '0': there is no tensor 'w'"),
    "tensor of another": ((*NODE, "params", "weight", "mu"), "0.bias_mu", "mu and rho of 'weight' differ in shape"),
    "wrong shape": (("tensors", "4.bias_mu"), torch.zeros(3), "node '4': mu and rho of 'bias' differ in shape"),
    "scalar": (("tensors", "1.weight"), torch.tensor(1.0), "node '1': batch_norm: parameters"),
    "float64": (("tensors", "4.bias_mu"), torch.zeros(1).double(), "'4.bias_mu' must be float32, got torch.float64"),
    "integers": (("tensors", "4.bias_mu"), torch.zeros(1).long(), "must be float32, got torch.int64"),
    "list": (("tensors", "4.bias_mu"), [1.0], "must be float32, got list"),
    "empty": (("tensors", "4.bias_mu"), torch.zeros(0), "is not stored plainly"),
    "transposed": (("tensors", "4.weight_mu"), torch.zeros(2, 3).T, "is not stored plainly"),
    "with gradient": (("tensors", "4.bias_mu"), torch.zeros(1, requires_grad=True), "is not stored plainly"),
    "NaN": (("tensors", "4.bias_mu"), torch.tensor([float("nan")]), "tensor '4.bias_mu' holds a NaN or an infinity"),
    "one NaN": (("tensors", "1.weight"), torch.tensor([1.0, float("nan")]), "tensor '1.weight' holds a NaN"),
    "infinity": (("tensors", "4.bias_rho"), torch.tensor([float("inf")]), "holds a NaN or an infinity"),
    "huge rho": (("tensors", "4.bias_rho"), torch.tensor([1e30]), "node '4': parameter 'bias' holds a NaN"),
    "negative variance": (("tensors", "1.running_var"), torch.tensor([1.0, -1.0]), "node '1': running_var is negative"),
    "number as name": (("tensors", 5), torch.zeros(1), "a tensor's name must be text"),
    "large number": (("metadata", "x"), 2**70, "metadata must be plain data"),
    "number as key": (("metadata", 5), 5, "a key of metadata must be text"),
}


@pytest.mark.parametrize("path, value, message", FIELDS.values(), ids=FIELDS.keys())
def test_a_wrong_field_is_named(tmp_path, path, value, message):
    assert message in refuse(tmp_path, saved(change(path, value)))


def test_names_are_data(tmp_path):
    data = contents()
    names = {str(i): name for i, name in enumerate(["../../etc/passwd", '"; rm -rf / #', "a\nb\0", "*/ int main(", ""])}
    for node in data["graph"]["nodes"]:
        node["inputs"] = [names.get(name, name) for name in node["inputs"]]
        node["name"] = names[node["name"]]
    data["graph"]["output"], data["name"] = names["4"], "../x\n"
    (tmp_path / "net.pt").write_bytes(saved(data))
    graph = lbnn.read_model(tmp_path / "net.pt").graph
    assert all(set(name) <= set("._abcdefghijklmnopqrstuvwxyz") for name in graph.values)
    x = torch.randn(2, 1, 5)
    (tmp_path / "good.pt").write_bytes(GOOD)
    out, expected = lbnn.load(tmp_path / "net.pt")(x), lbnn.load(tmp_path / "good.pt")(x)
    assert torch.equal(out.mean, expected.mean) and torch.equal(out.var, expected.var)


# Bytes


NOT_MODELS = {
    "nothing": b"",
    "text": b"hello\n",
    "zeros": bytes(1000),
    "zip": packed({"a.txt": b"hello"}),
    "empty zip": packed({}),
    "truncated": GOOD[: len(GOOD) // 2],
    "without its end": GOOD[:-1],
    "with a tail": GOOD + b"x" * 70_000,
    "tensor": saved(torch.zeros(3)),
    "state dict": saved(bnn.Linear(2, 2).state_dict()),
    "list": saved([1, 2, 3]),
    "member twice": packed({**members(GOOD), "other/data.pkl": members(GOOD)["archive/data.pkl"]}),
}


@pytest.mark.parametrize("data", NOT_MODELS.values(), ids=NOT_MODELS.keys())
def test_what_is_not_a_model_is_refused(tmp_path, data):
    refuse(tmp_path, data)


def test_a_flipped_bit_of_a_weight_is_noticed(tmp_path):
    weight = members(GOOD)["archive/data/0"]
    at = GOOD.index(weight)
    assert "damaged" in refuse(tmp_path, GOOD[:at] + bytes([weight[0] ^ 1]) + GOOD[at + 1 :])


NOT_FILES = {"missing.pt": "no such file", ".": "is a folder", "a\0b": "no such file", "x" * 300: "can't be read"}


@pytest.mark.parametrize("name, message", NOT_FILES.items(), ids=["missing", "folder", "zero byte", "long"])
def test_what_is_not_a_file_is_refused(tmp_path, name, message):
    for read in (lbnn.read_model, lbnn.load):
        with pytest.raises(LbnnError, match=message):
            read(f"{tmp_path}/{name}")


def mutated(data, rng):
    """Flips, inserts, deletes, repeats or cuts off bytes, up to four times."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 8)
        kind = rng.choice(["flip", "flip", "set", "insert", "delete", "repeat", "cut"])
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "set":
            data[at : at + length] = rng.randbytes(length)
        elif kind == "insert":
            data[at:at] = rng.randbytes(length)
        elif kind == "delete":
            del data[at : at + length]
        elif kind == "repeat":
            data[at:at] = data[max(0, at - 50) : at]
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def mutant(rng):
    """A changed file; in half of them a member is changed and the checksums are right again."""
    if rng.random() < 0.5:
        return mutated(GOOD, rng)
    files = members(GOOD)
    name = rng.choice(["archive/data.pkl"] * 8 + list(files))
    return packed({**files, name: mutated(files[name], rng)})


DANGEROUS = {"os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.remove"}


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
def test_ten_thousand_mutants_are_read_or_refused(tmp_path):
    rng = random.Random(20240)
    watching, events, slowest, refused = True, [], 0.0, 0
    sys.addaudithook(lambda event, args: events.append(event) if watching and event in DANGEROUS else None)
    path = tmp_path / "mutant.pt"
    for _ in range(MUTANTS):
        path.write_bytes(mutant(rng))
        start = time.process_time()
        try:
            lbnn.read_model(path)
        except LbnnError as error:
            refused += 1
            assert "\n" not in str(error)
        slowest = max(slowest, time.process_time() - start)
    watching = False
    assert not events
    assert slowest < SLOWEST
    assert refused > 0.5 * MUTANTS
