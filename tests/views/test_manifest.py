"""A manifest says what it was told, and no byte of it can change unnoticed."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DamagedBytes, Unsupported
from penstock.log.format import crc32c
from penstock.spine import END, Slice
from penstock.views.manifest import ChangeFile, Manifest, ViewState, manifest_name

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,9}(/[a-z0-9][a-z0-9.-]{0,9})?", fullmatch=True)
LARGE = st.integers(0, 2**63 - 1)
SLICES = st.builds(
    lambda file, rows, size, edges: Slice(file, rows, size, *sorted(edges)),
    NAMES,
    LARGE,
    LARGE,
    st.lists(st.integers(0, END), min_size=2, max_size=2, unique=True),
)
FILES = st.builds(
    ChangeFile,
    NAMES,
    LARGE,
    st.lists(st.tuples(*[LARGE] * 6), max_size=3).map(tuple),
)
VIEWS = st.builds(
    ViewState,
    st.text(max_size=5).map(lambda name: f"{name}#7"),
    st.lists(FILES, max_size=2).map(tuple),
    st.lists(SLICES, max_size=2).map(tuple),
    LARGE,
    LARGE,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
MANIFESTS = st.builds(
    Manifest,
    LARGE,
    LARGE,
    TEXT,
    LARGE,
    st.dictionaries(TEXT, LARGE, max_size=3),
    LARGE,
    LARGE,
    st.dictionaries(
        TEXT, st.dictionaries(TEXT, st.lists(SLICES, max_size=2).map(tuple), max_size=2), max_size=2
    ),
    st.dictionaries(TEXT, VIEWS, max_size=2),
    LARGE,
)
SAMPLE = Manifest(
    7,
    2,
    "the driver",
    1_700_000_000_000_000,
    {"main": 12, "views/other": 3},
    41,
    5,
    {"f00d": {"sums": (Slice("runs/a", 3, 400), Slice("runs/b", 1, 80, 5, END))}},
    {"sums": ViewState("sums#9", (ChangeFile("changes/a", 900, ((64, 500, 17, 5, 8, 4),)),), (), 2, 8)},
    12,
)


@given(MANIFESTS)
def test_what_is_encoded_is_decoded(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode(), "here") == manifest


@given(MANIFESTS)
def test_the_same_manifest_is_the_same_bytes(manifest: Manifest) -> None:
    assert Manifest.decode(manifest.encode(), "here").encode() == manifest.encode()


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80, 0xFF])
def test_no_byte_changes_unnoticed(mask: int) -> None:
    data = SAMPLE.encode()
    for i in range(len(data)):
        changed = bytearray(data)
        changed[i] ^= mask
        with pytest.raises(DamagedBytes) as caught:
            Manifest.decode(bytes(changed), "manifest/7")
        assert caught.value.subject == "manifest/7"


def test_no_manifest_is_cut_short_or_grows_unnoticed() -> None:
    data = SAMPLE.encode()
    for some in (*(data[:i] for i in range(len(data))), data + b" ", data + data):
        with pytest.raises(DamagedBytes):
            Manifest.decode(some, "here")


def test_a_newer_format_is_told_from_damage() -> None:
    text = orjson.dumps(orjson.loads(SAMPLE.encode())["manifest"] | {"format": 2})
    data = b'{"crc32c": "%08x", "manifest": ' % crc32c(text) + text + b"}\n"
    with pytest.raises(Unsupported, match="format 2"):
        Manifest.decode(data, "here")


@given(LARGE, LARGE)
def test_names_sort_as_ticks_do(one: int, other: int) -> None:
    assert (manifest_name("p", one) < manifest_name("p", other)) == (one < other)


def test_a_manifest_is_read_by_people_with_any_tool() -> None:
    told = orjson.loads(SAMPLE.encode())["manifest"]
    assert told["frontier"] == {"main": 12, "views/other": 3}
    assert told["views"]["sums"]["collection"] == "sums#9"
