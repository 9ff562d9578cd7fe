from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import AccessDenied, Closed, FileChanged, InvalidArgument, MayHaveHappened, NotFound
from penstock.log.watched_file import WatchedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_bytes(b"head")
    return path


def run(*works: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def in_turn(*works: Callable[[], object]) -> Callable[[], None]:
    def work() -> None:
        for part in works:
            part()

    return work


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_an_append_is_written_before_anybody_is_told_of_it(path: Path) -> None:
    with WatchedFile(path) as file:
        sizes: list[int] = []
        file.subscribe(lambda: sizes.append(file.size))
        file.subscribe(lambda: sizes.append(-file.size))
        assert file.append(b"1234") == 8
        assert sizes == [8, -8]
        assert file.told == 8
        assert bytes(file.read(2, 4)) == b"ad12"
        assert path.read_bytes() == b"head1234"


def test_appending_nothing_tells_nothing(path: Path) -> None:
    with WatchedFile(path) as file:
        file.subscribe(lambda: pytest.fail("told"))
        assert file.append(b"") == 4


def test_what_is_read_cannot_be_written_to_and_any_buffer_can_be_appended(path: Path) -> None:
    with WatchedFile(path) as file:
        file.append(bytearray(b"a"))
        file.append(memoryview(b"b--c")[::1].cast("B"))
        assert bytes(file.read(4, 5)) == b"ab--c"
        assert file.read(0, 4).readonly


def test_the_first_error_of_a_subscriber_stops_the_chain_and_goes_back_to_the_appender(path: Path) -> None:
    with WatchedFile(path) as file:
        said: list[str] = []

        def fails() -> None:
            said.append("fails")
            raise LookupError("mine")

        unsubscribe = file.subscribe(fails)
        file.subscribe(lambda: said.append("later"))
        with pytest.raises(LookupError, match="mine") as caught:
            file.append(b"12")
        assert caught.value.__notes__ == [f"2 bytes had been appended to {path} when this was raised."]
        assert path.read_bytes() == b"head12"
        assert said == ["fails"]
        unsubscribe()
        file.notify()
        assert said == ["fails", "later"]


def test_an_append_from_inside_a_callback_is_told_after_the_chain(path: Path) -> None:
    with WatchedFile(path) as file:
        said: list[tuple[str, int]] = []

        def first() -> None:
            said.append(("first", file.size))
            if file.size == 5:
                file.append(b"2")

        file.subscribe(first)
        file.subscribe(lambda: said.append(("second", file.size)))
        file.append(b"1")
        assert said == [("first", 5), ("second", 6), ("first", 6), ("second", 6)]


def test_appends_of_many_threads_are_whole_and_notifications_never_overlap(path: Path) -> None:
    with WatchedFile(path) as file:
        inside: list[int] = []
        told: list[int] = []

        def callback() -> None:
            inside.append(1)
            assert len(inside) == 1
            told.append(file.size)
            inside.pop()

        file.subscribe(callback)
        run(*(lambda byte=byte: [file.append(byte * 10) for _ in range(50)] for byte in (b"a", b"b", b"c")))
        body = path.read_bytes()[4:]
        assert sorted({body[i : i + 10] for i in range(0, 1500, 10)}) == [b"a" * 10, b"b" * 10, b"c" * 10]
        assert told == sorted(told)
        assert told[-1] == 1504
        assert file.told == 1504


def test_a_file_that_shrank_stays_broken_even_when_it_grows_again(path: Path) -> None:
    with WatchedFile(path) as file:
        file.append(b"1234")
        os.truncate(path, 6)
        for _ in range(2):
            with pytest.raises(FileChanged, match="it shrank from 8 to 6 bytes"):
                _ = file.size
            os.truncate(path, 100)
        assert file.broken
        for use in (lambda: file.append(b"x"), lambda: file.read(0, 1), file.notify):
            with pytest.raises(FileChanged, match="it shrank"):
                use()
        assert path.stat().st_size == 100


def test_a_file_that_another_took_the_place_of_is_broken(path: Path, tmp_path: Path) -> None:
    with WatchedFile(path) as file:
        other = tmp_path / "other"
        other.write_bytes(b"longer than the first")
        other.replace(path)
        with pytest.raises(FileChanged, match="another file took its place"):
            file.append(b"x")
        assert path.read_bytes() == b"longer than the first"


def test_a_file_that_vanished_is_broken_also_with_its_folder(tmp_path: Path) -> None:
    for vanish in ("file", "folder"):
        folder = tmp_path / vanish
        folder.mkdir()
        with WatchedFile(folder / "rows", create=True) as file:
            file.append(b"1")
            file.path.unlink()
            if vanish == "folder":
                folder.rmdir()
                folder.write_bytes(b"a file now")
            with pytest.raises(FileChanged, match="it vanished"):
                file.append(b"x")


def test_reading_beyond_the_end_is_an_error_and_never_fewer_bytes(path: Path) -> None:
    with WatchedFile(path) as file, pytest.raises(FileChanged, match="it ends at 4, before 9"):
        file.read(1, 8)


def test_a_file_must_be_there_and_regular(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        WatchedFile(tmp_path / "none")
    with pytest.raises(InvalidArgument, match="a folder"):
        WatchedFile(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    before = open_descriptors()
    with pytest.raises(InvalidArgument, match="not a regular file"):
        WatchedFile(tmp_path / "pipe")
    assert open_descriptors() == before
    with WatchedFile(tmp_path / "new", create=True) as file:
        assert file.size == 0


def test_a_file_that_may_only_be_read_is_watched_but_not_appended_to(path: Path) -> None:
    path.chmod(0o400)
    if os.geteuid() == 0:  # who may write every file but those of the kernel that cannot be written
        path = Path("/sys/kernel/uevent_seqnum")
    with WatchedFile(path) as file:
        assert file.size == path.stat().st_size
        with pytest.raises(AccessDenied):
            file.append(b"x")


def test_a_write_cut_short_says_that_it_may_have_happened(path: Path) -> None:
    import resource
    import signal

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with WatchedFile(path) as file:
            file.subscribe(lambda: pytest.fail("told of half a write"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (6, old[1]))
            with pytest.raises(MayHaveHappened, match="only 2 of 4 bytes were appended"):
                file.append(b"1234")
            assert file.size == 6
            assert not file.broken
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_closing_is_idempotent_and_afterwards_nothing_is_done(path: Path) -> None:
    before = open_descriptors()
    file = WatchedFile(path)
    unsubscribe = file.subscribe(lambda: pytest.fail("told"))
    file.close()
    file.close()
    assert file.closed
    file.notify()
    unsubscribe()
    for use in (
        lambda: file.size,
        lambda: file.read(0, 1),
        lambda: file.append(b"x"),
        lambda: file.subscribe(print),
        lambda: file.follow(),
    ):
        with pytest.raises(Closed):
            use()
    assert path.read_bytes() == b"head"
    assert open_descriptors() == before


def test_closing_waits_for_the_notification_that_runs(path: Path) -> None:
    file = WatchedFile(path)
    inside, go_on, said = threading.Event(), threading.Event(), list[str]()

    def callback() -> None:
        inside.set()
        assert go_on.wait(10)
        said.append(f"told of {file.size}")  # the file can still be read

    file.subscribe(callback)
    appender = threading.Thread(target=file.append, args=(b"1",))
    appender.start()
    assert inside.wait(10)
    closer = threading.Thread(target=in_turn(file.close, lambda: said.append("closed")))
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go_on.set()
    closer.join(10)
    appender.join(10)
    assert said == ["told of 5", "closed"]


def test_closing_from_inside_a_callback_ends_the_chain_and_gives_the_file_back(path: Path) -> None:
    before = open_descriptors()
    file = WatchedFile(path)
    said: list[str] = []

    def closes() -> None:
        file.close()
        said.append(f"closed at {file.size}")
        with pytest.raises(Closed):
            file.append(b"x")

    file.subscribe(closes)
    file.subscribe(lambda: said.append("later"))
    file.append(b"1")
    assert said == ["closed at 5"]
    assert path.read_bytes() == b"head1"
    assert open_descriptors() == before


def test_subscribers_may_come_and_go_inside_callbacks(path: Path) -> None:
    with WatchedFile(path) as file:
        said: list[str] = []

        def first() -> None:
            said.append("first")
            leave()
            file.subscribe(lambda: said.append("new"))

        leave = file.subscribe(first)
        file.append(b"1")
        assert said == ["first"]
        file.append(b"2")
        assert said == ["first", "new"]
