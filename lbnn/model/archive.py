"""Reads the bytes of `torch.save` without trusting them.

The file is a zip archive of uncompressed members. It is taken apart here before torch sees it: compressed or
overlapping members, wrong checksums and every pickled name but those of plain tensors are refused, and torch is given
a new archive of the members that were checked. So no file runs code, nothing is allocated that is not in the file, and
a damaged weight is noticed.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from lbnn.base.errors import LbnnError

MEMBER = re.compile(r"[^/]*/(data\.pkl|version|byteorder|data/[0-9]+)")
"""The members of torch's archive that matter; the folder's name is free."""

OPCODES = {
    *("PROTO", "MARK", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("SETITEM", "SETITEMS", "APPEND", "APPENDS", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "REDUCE", "BINPERSID"),
}
"""What torch.save needs for plain data and tensors."""

ITEM_SIZES = {
    **{"torch FloatStorage": 4, "torch DoubleStorage": 8, "torch HalfStorage": 2, "torch BFloat16Storage": 2},
    **{"torch LongStorage": 8, "torch IntStorage": 4, "torch ShortStorage": 2, "torch CharStorage": 1},
    **{"torch ByteStorage": 1, "torch BoolStorage": 1},
}
"""Bytes of an element."""

MAX_PICKLE = 300_000
"""Pickle codes, of which torch reads a few hundred thousand a second; a layer takes about two hundred."""

GLOBALS = {"torch._utils _rebuild_tensor_v2", "collections OrderedDict", *ITEM_SIZES}
"""The only names that a file may refer to."""

HOW_TO_MAKE_ONE = "a model file is what lbnn.save(model, path, input_shape=...) or lbnn train writes"

OF_TORCH = "is a file of torch.save, not of lbnn.save"


def read_archive(data: bytes) -> Any:
    """The plain data and tensors in the bytes of a file."""
    if not data.startswith(b"PK"):
        raise LbnnError(f"is not an lbnn model, nor a file of torch.save; {HOW_TO_MAKE_ONE}")
    with damage_explained():
        members = _members(data)
        if "data.pkl" not in members:
            raise LbnnError(f"is not an lbnn model; {HOW_TO_MAKE_ONE}")
        _check_pickle(members)
        return torch.load(_archive(members), map_location="cpu", weights_only=True)


@contextmanager
def damage_explained() -> Iterator[None]:
    """The readers of zip, pickle and tensors raise nearly anything on bad bytes; all of it means one thing."""
    try:
        yield
    except LbnnError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0][:100]
        raise LbnnError(f"is truncated, damaged or not an lbnn model ({type(error).__name__}: {reason})") from None


def _members(data: bytes) -> dict[str, bytes]:
    """The members of the archive: stored, together no larger than the file, checksums right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise LbnnError(f"has compressed members, as TorchScript has and lbnn.save never writes; {HOW_TO_MAKE_ONE}")
        if sum(info.file_size for info in infos) > len(data):
            raise LbnnError("claims more data than it holds")
        found = [(match[1], info) for info in infos if (match := MEMBER.fullmatch(info.filename))]
        members = {name: archive.read(info) for name, info in found}
    if len(members) != len(found):
        raise LbnnError("holds a member twice")
    return members


def _check_pickle(members: Mapping[str, bytes]) -> None:
    """Refuses all names but those of plain tensors and all storages that are not in the file, unpickling nothing."""
    memo: dict[Any, Any] = {}
    pushed: list[Any] = []
    for number, (opcode, argument, _) in enumerate(pickletools.genops(members["data.pkl"])):
        if number > MAX_PICKLE:
            raise LbnnError(f"has more than {MAX_PICKLE} pickle codes of graph and metadata")
        if opcode.name not in OPCODES:
            raise LbnnError(f"{OF_TORCH}, such as a state_dict; {HOW_TO_MAKE_ONE}")
        if opcode.name == "GLOBAL" and argument not in GLOBALS:
            raise LbnnError(f"{OF_TORCH} (refers to {str(argument)[:100]!r}); {HOW_TO_MAKE_ONE}")
        if opcode.name == "BINPERSID":
            _check_storage(pushed[-7:], members)
        elif opcode.name.endswith("BINPUT"):
            memo[argument] = pushed[-1]
        else:
            pushed.append(memo[argument] if opcode.name.endswith("BINGET") else (opcode.name, argument))


def _check_storage(pushed: list[Any], members: Mapping[str, bytes]) -> None:
    """A storage is the tuple ("storage", type, key, device, length), spelled out; its member has that length."""
    mark, (_, word), (_, kind), (_, key), _, (_, length), close = pushed
    size = len(members[f"data/{key}"])
    if (mark[0], word, close[0]) != ("MARK", "storage", "TUPLE") or length * ITEM_SIZES[kind] != size:
        raise LbnnError(f"has a tensor of {length} elements for {size} bytes of data")


def _archive(members: Mapping[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(f"model/{name}", content)
    archive.seek(0)
    return archive
