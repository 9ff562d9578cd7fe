from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.errors import Closed, FileChanged
from penstock.log.follower import Follower
from penstock.log.framing import FixedRows
from penstock.log.growth import GrowthWatch
from penstock.log.row_emitter import RowEmitter
from penstock.log.watched_file import WatchedFile
from tests.log.child import child_writing

SOON = 20.0  # seconds: never waited for when all is well
linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Heard:
    """Collects what callbacks say, and lets the test wait for it."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self._changed = threading.Condition()

    def __call__(self, said: object) -> None:
        with self._changed:
            self.said.append(said)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[object]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.said) >= count, SOON), self.said
            return list(self.said)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_bytes(b"head")
    return path


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def follow(file: WatchedFile, inotify: bool, on_error: Callable[[Exception], None]) -> Follower:
    """Where there is inotify, nothing but its events makes this follower look."""
    return Follower(file, on_error, watch=GrowthWatch(file.path, inotify=inotify, heartbeat=3600)).start()


@pytest.mark.parametrize("inotify", [pytest.param(True, marks=linux), False])
def test_rows_that_another_process_writes_come_once_each_in_order(path: Path, inotify: bool) -> None:
    rows = [index.to_bytes(7, "big") for index in range(3000)]
    data = b"".join(rows)
    cuts = [0, *sorted({(i * 7919) % len(data) for i in range(900)}), len(data)]  # most cut a row in two
    chunks = [data[a:b] for a, b in pairwise(cuts)]
    heard = Heard()
    with WatchedFile(path) as file, child_writing(path) as child:
        RowEmitter(file, FixedRows(7, header=4)).subscribe(lambda index, row: heard((index, bytes(row))))
        with follow(file, inotify, heard) as follower:
            assert follower.uses_inotify is inotify
            half = len(chunks) // 2
            child.write(*chunks[:half])  # at full speed
            heard.wait_for(cuts[half] // 7)
            for i in range(half, half + 100):  # and one write at a time, each waited for
                child.write(chunks[i])
                heard.wait_for(cuts[i + 1] // 7)
            child.write(*chunks[half + 100 :])
            assert heard.wait_for(len(rows)) == list(enumerate(rows))
    assert len(heard.said) == len(rows)


@linux
def test_inotify_is_what_is_used_where_it_is(path: Path) -> None:
    with WatchedFile(path) as file, file.follow() as follower:
        assert follower.uses_inotify


def test_growth_from_before_the_following_is_told_at_once(path: Path) -> None:
    heard = Heard()
    with WatchedFile(path) as file:
        RowEmitter(file, FixedRows(2, header=4)).subscribe(lambda index, row: heard(bytes(row)))
        with path.open("ab") as other:
            other.write(b"aabbc")
        with file.follow(heard):
            assert heard.wait_for(2) == [b"aa", b"bb"]


def test_growth_between_arming_the_watch_and_looking_is_not_lost(path: Path) -> None:
    heard = Heard()
    with WatchedFile(path) as file:
        RowEmitter(file, FixedRows(2, header=4)).subscribe(lambda index, row: heard(bytes(row)))
        watch = GrowthWatch(path, heartbeat=3600)
        with path.open("ab") as other:
            other.write(b"aa")
        watch._listen(0)  # the event of this write is used up; only looking can find it now
        with Follower(file, heard, watch=watch).start():
            assert heard.wait_for(1) == [b"aa"]


@pytest.mark.parametrize("inotify", [pytest.param(True, marks=linux), False])
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: os.truncate(path, 2), "it shrank from 6 to 2 bytes"),
        (lambda path: path.unlink(), "it vanished"),
        (lambda path: path.rename(path.with_name("elsewhere")), "it vanished"),
        (lambda path: _replace(path), "another file took its place"),
    ],
)
def test_a_file_that_changes_ends_the_following_with_an_error(
    path: Path, inotify: bool, change: Callable[[Path], None], what: str
) -> None:
    heard = Heard()
    with WatchedFile(path) as file:
        file.append(b"aa")
        RowEmitter(file, FixedRows(2, header=4)).subscribe(lambda index, row: heard(bytes(row)))
        with follow(file, inotify, heard) as follower:
            change(path)
            (error,) = heard.wait_for(1)
            assert follower.join(SOON)
            assert isinstance(error, FileChanged)
            assert what in str(error)
            assert follower.error is error
            assert file.broken
    assert len(heard.said) == 1


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"another file, and longer")
    other.replace(path)


def test_a_failing_subscriber_keeps_nothing_from_those_behind_it(path: Path) -> None:
    heard = Heard()
    errors = Heard()

    def fails(index: int, row: memoryview) -> None:
        raise LookupError(index)

    with WatchedFile(path) as file:
        emitter = RowEmitter(file, FixedRows(2, header=4))
        emitter.subscribe(fails)
        emitter.subscribe(fails)
        emitter.subscribe(lambda index, row: heard((index, bytes(row))))
        with follow(file, True, errors) as follower, path.open("ab", buffering=0) as other:
            other.write(b"aabb")
            assert heard.wait_for(2) == [(0, b"aa"), (1, b"bb")]
            other.write(b"cc")
            assert heard.wait_for(3)[2:] == [(2, b"cc")]
            assert follower.uses_inotify == (sys.platform == "linux")
        assert [type(error) for error in errors.said] == [LookupError, LookupError]
        assert len(emitter.failed) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_taker_an_error_ends_the_following_and_stays_in_sight(path: Path) -> None:
    def fails() -> None:
        raise LookupError("mine")

    with WatchedFile(path) as file:
        file.subscribe(fails)
        with file.follow() as follower:
            assert follower.join(SOON)
            assert isinstance(follower.error, LookupError)
            assert not file.broken


def test_own_appends_and_other_processes_mix(path: Path) -> None:
    heard = Heard()
    with WatchedFile(path) as file, file.follow(heard), path.open("ab", buffering=0) as other:
        RowEmitter(file, FixedRows(2, header=4)).subscribe(lambda index, row: heard(bytes(row)))
        expected = []
        for i in range(200):
            row = i.to_bytes(2, "big")
            expected.append(row)
            if i % 2:
                file.append(row)
                assert heard.said == expected  # told when the append returns
            else:
                other.write(row)
                heard.wait_for(i + 1)
        assert heard.said == expected


def test_closing_gives_everything_back_and_may_come_from_anywhere(path: Path) -> None:
    before = open_descriptors()
    file = WatchedFile(path)
    follower = file.follow()
    follower.close()
    follower.close()
    assert not follower.is_running
    other = file.follow()
    file.close()
    assert not other.is_running
    assert open_descriptors() == before


def test_a_follower_that_is_closed_before_it_starts_does_nothing(path: Path) -> None:
    before = open_descriptors()
    with WatchedFile(path) as file:
        file.subscribe(lambda: pytest.fail("told"))
        follower = Follower(file)
        follower.close()
        assert follower.start().join(SOON)
        assert follower.error is None
        Follower(file).close()
    assert open_descriptors() == before


def test_closing_inside_a_callback_of_the_follower_does_not_wait_for_itself(path: Path) -> None:
    before = open_descriptors()
    file = WatchedFile(path)
    heard = Heard()

    def callback() -> None:
        file.close()
        heard("closed")

    file.subscribe(callback)
    follower = file.follow(heard)
    assert heard.wait_for(1) == ["closed"]
    assert follower.join(SOON)
    assert follower.error is None
    assert open_descriptors() == before


def test_closing_inside_an_append_does_not_wait_for_a_follower_that_waits_for_its_turn(path: Path) -> None:
    appender = threading.Thread(target=lambda: file.append(b"1"))

    class Asked(WatchedFile):
        by_follower = threading.Event()

        def notify(self) -> None:
            if threading.current_thread() is not appender:
                self.by_follower.set()
            super().notify()

    file = Asked(path)
    file.notify()
    file.by_follower.clear()
    heard = Heard()
    follower = file.follow(heard)

    def callback() -> None:
        if file.size > 4:
            assert file.by_follower.wait(SOON)  # it has seen the append, and waits for the turn held here
            follower.close()
            file.close()
            heard("closed")

    file.subscribe(callback)
    appender.start()
    appender.join(SOON)
    assert not appender.is_alive()
    assert follower.join(SOON)
    assert heard.said == ["closed"]


class Scripted:
    """A file that was closed, or that changes while its subscribers are told."""

    told = -1
    broken = False
    in_notification = False

    def __init__(self, path: Path, closed: bool) -> None:
        self.path = path
        self._closed = closed

    @property
    def size(self) -> int:
        if self._closed:
            raise Closed("it was closed", subject="file", hint="None.")
        if self.broken:
            raise FileChanged("it shrank", subject="file", hint="None.")
        return 4

    def notify(self) -> None:
        self.broken = True
        raise FileChanged("it shrank", subject="file", hint="None.")


def test_a_file_that_was_closed_ends_the_following_without_an_error(path: Path) -> None:
    heard = Heard()
    follower = Follower(Scripted(path, closed=True), heard).start()
    assert follower.join(SOON)
    assert follower.error is None
    assert heard.said == []


def test_a_file_that_changes_while_it_is_told_of_is_told_once(path: Path) -> None:
    heard = Heard()
    follower = Follower(Scripted(path, closed=False), heard).start()
    assert follower.join(SOON)
    assert heard.said == [follower.error]
    assert isinstance(follower.error, FileChanged)


@linux
def test_a_watch_that_hears_nothing_of_growth_gives_way_to_looking(path: Path, tmp_path: Path) -> None:
    """As on a folder that another machine writes: here, the watch is armed on another file."""
    silent = tmp_path / "silent"
    silent.write_bytes(b"")
    heard = Heard()
    with WatchedFile(path) as file:
        RowEmitter(file, FixedRows(2, header=4)).subscribe(lambda index, row: heard(bytes(row)))
        watch = GrowthWatch(silent, heartbeat=0.01)
        with Follower(file, heard, watch=watch).start() as follower, path.open("ab", buffering=0) as other:
            assert follower.uses_inotify
            for count, row in enumerate([b"aa", b"bb", b"cc"], 1):
                other.write(row)
                heard.wait_for(count)
            assert not follower.uses_inotify


@linux
def test_an_event_that_comes_after_the_look_does_not_discredit_the_watch(path: Path) -> None:
    watch = GrowthWatch(path, heartbeat=0)
    try:
        watch.wait(grew=False)  # over at once: nothing was heard
        with path.open("ab") as other:
            other.write(b"x")
        watch.wait(grew=True)  # the look found the growth before the event was taken
        assert watch.uses_inotify
    finally:
        watch.close()


@linux
def test_a_wait_cut_short_says_nothing_about_the_watch(path: Path) -> None:
    watch = GrowthWatch(path, heartbeat=3600)
    try:
        for _ in range(3):
            watch.wait(grew=True, at_most=0)
        assert watch.uses_inotify
    finally:
        watch.close()


def test_a_path_that_cannot_be_watched_is_looked_at(tmp_path: Path) -> None:
    before = open_descriptors()
    watch = GrowthWatch(tmp_path / "none")
    assert not watch.uses_inotify
    watch.wake()
    watch.wait(grew=False)
    watch.close()
    watch.close()
    watch.wake()
    assert open_descriptors() == before


def test_waking_ends_the_wait_however_often_it_is_done(path: Path) -> None:
    watch = GrowthWatch(path, heartbeat=3600)
    for _ in range(100_000):  # more than a pipe holds
        watch.wake()
    waiter = threading.Thread(target=watch.wait, args=(False,))
    waiter.start()
    waiter.join(SOON)
    assert not waiter.is_alive()
    watch.close()


@linux
def test_when_no_watch_is_left_the_file_is_looked_at(path: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from penstock.log.growth import GrowthWatch
watches = []
while True:
    watches.append(GrowthWatch(Path({str(path)!r})))
    if not watches[-1].uses_inotify:
        break
print(len(watches) > 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
