"""The journal loses no spend: not to a kill, a second process, a thread, a full disk, nor a
changed file."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from dpverify import Adjacency, GaussianDP
from dpverify.session import journal
from dpverify.session.account import Account, AccountError, BudgetExceeded, CorruptAccount

BUDGET = GaussianDP(1)


def _account(path: Path | None) -> Account:
    return Account(BUDGET, path, adjacency=Adjacency.ADD_REMOVE, schema="one column")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "account.jsonl"


@pytest.fixture
def account(path: Path) -> Account:
    return _account(path)


def _spend(account: Account, share: str = "1/10", what: str = "a mean") -> None:
    account.spend(account.fraction(share), what)


def _child(work: Callable[[], None]) -> int:
    """Start a process that does the work; its exit status is 0 if that raised nothing."""
    child = os.fork()
    if child:
        return child
    status = 1
    with suppress(BaseException):
        work()
        status = 0
    os._exit(status)


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- kills --------------------------------------------------------------------------------------


def test_a_process_killed_after_the_line_is_synced_has_spent(account: Account) -> None:
    def killed() -> None:
        _spend(account)
        os.kill(os.getpid(), signal.SIGKILL)  # before anything is answered

    assert _ended(_child(killed)) == -signal.SIGKILL
    assert len(account.log) == 1


def test_a_line_is_synced_before_a_record_may_be_read(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record the order of calls. Its false twin, a journal that does not sync, is seen."""
    done: list[str] = []

    def watched(name: str, right: Callable[..., int | None]) -> Callable[..., int | None]:
        def call(*given: object) -> int | None:
            done.append(name)
            return right(*given)

        return call

    for name in ("write", "fsync"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    _spend(account)
    assert done == ["write", "fsync"]
    monkeypatch.setattr(journal.OnDisk, "_sync", lambda self, file: None)
    _spend(account)
    assert done == ["write", "fsync", "write"]


def _killed_in_the_middle(account: Account) -> None:
    """Let a child write half of a line, and be killed there."""

    def killed() -> None:
        right = os.write

        def half(file: int, text: bytes) -> int:
            right(file, text[: len(text) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        os.write = half  # type: ignore[assignment]
        _spend(account)

    assert _ended(_child(killed)) == -signal.SIGKILL


def test_a_torn_last_line_is_refused_and_mended_in_words(account: Account, path: Path) -> None:
    _spend(account, what="kept")
    _killed_in_the_middle(account)
    for refused in (lambda: account.log, lambda: _spend(account), lambda: Account.resume(path)):
        with pytest.raises(CorruptAccount, match=r"torn.*Account\.mend"):
            refused()
    assert "cut off" in Account.mend(path)
    assert [spend.what for spend in account.log] == ["kept"]
    assert "mended" in json.loads(path.read_text().splitlines()[-1])
    _spend(account, what="after")
    assert [(s.number, s.what) for s in Account.resume(path).log] == [(1, "kept"), (2, "after")]


def test_a_last_line_is_cut_off_or_kept_whole(account: Account, path: Path) -> None:
    """Tear the last line at many bytes: what was written before is never lost, nor what lacks its
    end of line alone."""
    for _ in range(2):
        _spend(account)
    content = path.read_bytes()
    start = content[:-1].rindex(b"\n") + 1
    for end in (
        start + 1,
        *range(start + 2, len(content) - 2, 23),
        len(content) - 2,
        len(content) - 1,
    ):
        path.write_bytes(content[:end])
        with pytest.raises(CorruptAccount, match="torn"):
            journal.OnDisk(path).lines()
        Account.mend(path)
        spends = [line for line in journal.OnDisk(path).lines() if "spend" in line]
        assert len(spends) == (2 if end == len(content) - 1 else 1)
    path.write_bytes(content)
    assert "nothing was changed" in Account.mend(path)
    assert path.read_bytes() == content


# --- several at once ----------------------------------------------------------------------------


def test_processes_spend_one_budget(path: Path) -> None:
    """Let four processes open the account, which none has made yet, and spend until nothing is
    left."""

    def spends() -> None:
        account = _account(path)
        with suppress(BudgetExceeded):
            while True:
                _spend(account, "1/20", f"of {os.getpid()}")
        assert account.left is None

    children = [_child(spends) for _ in range(4)]
    assert [_ended(child) for child in children] == [0] * 4
    log = _account(path).log
    assert [spend.number for spend in log] == [*range(1, 21)]
    assert {spend.what for spend in log} <= {f"of {child}" for child in children}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_threads_spend_one_budget(where: str, path: Path) -> None:
    account = _account(path if where == "file" else None)

    def spends(_: int) -> int:
        try:
            _spend(account)
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spends, range(40))) == 10
    assert [spend.number for spend in account.log] == [*range(1, 11)]


def test_a_lock_is_what_keeps_them_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catch the false twin without a lock: two spends that read the same file before either
    writes."""
    monkeypatch.setattr(fcntl, "flock", lambda *given: None)
    first, second = _account(path), _account(path)
    right = first._refuse_more_than

    def meanwhile(*given: object) -> None:
        right(*given)  # type: ignore[arg-type]
        _spend(second, "1")

    monkeypatch.setattr(first, "_refuse_more_than", meanwhile)
    _spend(first, "1")
    with pytest.raises(CorruptAccount, match="line 3"):
        _account(path)


def test_a_child_spends_from_a_file_and_not_from_memory(account: Account) -> None:
    assert _ended(_child(lambda: _spend(account))) == 0
    assert len(account.log) == 1
    memory = _account(None)
    for work in (lambda: _spend(memory), lambda: memory.log):
        assert _ended(_child(work)) == 1  # type: ignore[arg-type]

    def refused() -> None:
        with pytest.raises(AccountError, match="Give the account a path"):
            _spend(memory)

    assert _ended(_child(refused)) == 0
    assert memory.log == ()


# --- full disks and other failures --------------------------------------------------------------


def test_a_full_disk_refuses_the_request_and_leaves_the_file_as_it_was(
    account: Account, path: Path
) -> None:
    _spend(account)
    before = path.read_bytes()

    def full() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for room in (0, 1, 100):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
            with pytest.raises(AccountError, match=r"File too large.*nothing was spent"):
                _spend(account)
            assert path.read_bytes() == before
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        with pytest.raises(AccountError, match="could not be made"):
            _account(path.with_name("other"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        _spend(account, what="there is room again")

    assert _ended(_child(full)) == 0
    assert [spend.what for spend in account.log] == ["a mean", "there is room again"]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_cannot_be_synced_is_refused_and_counts(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(AccountError, match="may count as spent, and no record was read"):
            _spend(account)
    assert len(account.log) == 1


def test_a_file_that_could_lose_its_name_is_refused(
    account: Account, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(journal, "_sync_folder", broken)
    opened: tuple[Callable[[Path], Account], ...] = (Account.resume, _account)
    for one in opened:
        with pytest.raises(AccountError, match="might take the file's name"):
            one(path)


def test_an_account_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    account = _account(Path("account.jsonl"))
    monkeypatch.chdir("/")
    _spend(account)
    assert len(Account.resume(tmp_path / "account.jsonl").log) == 1


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "account")
    for path in (Path("/dev/full"), tmp_path / "pipe", tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(AccountError):
            _account(path)
    with pytest.raises(AccountError, match="cannot be opened"):
        _account(tmp_path / "dangling")
    with pytest.raises(AccountError, match="No such file"):
        Account.resume(tmp_path / "missing")


# --- changed files ------------------------------------------------------------------------------


def test_a_change_of_any_byte_is_seen(account: Account, path: Path) -> None:
    for _ in range(2):
        _spend(account)
    content = path.read_bytes()
    assert len(journal.OnDisk(path)._check(content)) == 3
    for at in range(len(content)):
        with pytest.raises(CorruptAccount):
            journal.OnDisk(path)._check(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def test_lines_that_are_missing_doubled_or_in_another_order_are_seen(
    account: Account, path: Path
) -> None:
    for share in ("1/10", "1/5", "1/4"):
        _spend(account, share)
    header, *spends = path.read_bytes().splitlines(keepends=True)
    a, b, c = spends
    for changed in ([b, c], [a, c], [a, a, b, c], [b, a, c], [a, c, b], [a, b, c, c]):
        path.write_bytes(b"".join([header, *changed]))
        with pytest.raises(CorruptAccount, match="what an account has written"):
            Account.resume(path)
    another = path.with_name("another")
    _spend(_account(another))
    foreign = another.read_bytes().splitlines(keepends=True)[1]
    for content in (
        b"",
        b"\n",
        a,
        header + foreign,
        b"[" * 100_000 + b"\n",
        b"3\n",
        b"{}\n",
        b"\xff\n",
    ):
        path.write_bytes(content)
        with pytest.raises(CorruptAccount):
            Account.resume(path)


def test_an_older_file_is_seen_by_who_has_it_open_and_by_nobody_else(
    account: Account, path: Path
) -> None:
    """Check what the file cannot tell, too: the documentation says so."""
    _spend(account)
    older = path.read_bytes()
    _spend(account)
    path.write_bytes(older)
    with pytest.raises(CorruptAccount, match="older or another file"):
        _spend(account)
    path.unlink()
    with pytest.raises(AccountError, match="cannot be opened"):
        _spend(account)
    path.write_bytes(older)
    assert len(Account.resume(path).log) == 1


def test_a_file_that_is_replaced_while_it_is_locked_is_not_written(
    account: Account, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = fcntl.flock

    def replaced(file: int, how: int) -> None:
        right(file, how)
        if how == fcntl.LOCK_EX:
            other = path.with_name("other")
            other.write_bytes(path.read_bytes())
            other.rename(path)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(CorruptAccount, match="was replaced"):
        _spend(account)


def test_the_file_is_for_its_owner_alone(account: Account, path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
