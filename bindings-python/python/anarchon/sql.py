"""SQL databases by your own client, and SQL databases that you describe."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from . import _anarchon
from ._bridge import LoopBridge, register
from .builtin import NativeBackend
from .errors import BackendUnavailableError, InvalidOptionError
from .handlers import tell_thrown

__all__ = ["Connected", "SqlBackend", "SqlClient", "SqlDialect", "SqlQueryable"]

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

DEFAULT_TABLE = "anarchon_runs"


@runtime_checkable
class SqlQueryable(Protocol):
    """Something that takes statements: a connection, or a transaction on one."""

    def all(self, sql: str, params: list[Any]) -> MaybeAwaitable[Sequence[Any]]:
        """Sends one statement and brings back its rows, each a mapping of the names of the columns;
        none for a statement that has no rows.

        Parameters are texts, whole numbers and `None`. Whole numbers may come back as `int`,
        `Decimal` or digits, texts as `str` or `bytes`, truths as `bool`, 0 and 1.
        """
        raise NotImplementedError


@runtime_checkable
class SqlClient(Protocol):
    """A database client: `all` as in `SqlQueryable`, and transactions. Its methods are all `async
    def`, or all plain: then they run in one thread, one at a time.

    `transaction` is a method that takes a function, `transaction(fn)`, calls it with what takes the
    statements of the transaction, commits if it returns and rolls back if it raises; it may call it
    again. Or it takes nothing and gives a context manager (`with` or `async with`) that does so.
    An optional `close()` is called only if the backend opened the client.
    """

    def all(self, sql: str, params: list[Any]) -> MaybeAwaitable[Sequence[Any]]:
        """Sends one statement outside of a transaction."""
        raise NotImplementedError

    @property
    def transaction(self) -> Callable[..., Any]:
        """A transaction: see above."""
        raise NotImplementedError


class SqlDialect(Protocol):
    """What differs between SQL databases."""

    bigint: str
    """The type of a 64-bit integer, for example `BIGINT`."""
    now_ms: str
    """An expression that reads the database server's clock: whole ms since the Unix epoch. It must
    not be the clock of the transaction's start."""
    for_update: str
    """What is put behind a `SELECT` to lock the rows that it reads; empty where there is no such
    thing."""

    def placeholders(self, sql: str) -> str:
        """A statement with `?` for every parameter, in the database's own form (`$1`, `%s` …)."""
        raise NotImplementedError

    def extra_tables(self, table: str) -> list[str]:
        """Further statements that create what this database needs beside the runs table."""
        raise NotImplementedError

    def serialize(self, tx: Any, job: str) -> MaybeAwaitable[None]:
        """Makes two changes of one job take turns; called first in every transaction that changes
        it."""

    def is_already_created(self, error: BaseException) -> bool:
        """Whether this error says that what was to be created is there already."""
        raise NotImplementedError


class Connected(NamedTuple):
    """What `SqlBackend.connect` answers."""

    client: Any
    """The client."""
    owned: bool
    """Whether the backend closes it when the last scheduler stops."""


class SqlBackend(NativeBackend):
    """A backend with leases on a SQL database that the library does not know: it brings the tables,
    the claim transaction, leases and history; you give the connection and what differs.

    A subclass has `name`, `dialect`, `connect()` and `check_server()`; they are read when the
    backend is first used. `dialect.now_ms` must read the database server's clock; `for_update` and
    `serialize` must make two claims of one job take turns. `table` is the runs table, 1 to 48 of
    `a-z 0-9 _`; the others are named after it.

        class MyBackend(SqlBackend):
            name = "my-database"
            dialect = MyDialect()

            def __init__(self, url):
                super().__init__("anarchon_runs")
                self.url = url

            async def connect(self):
                return Connected(await my_driver.connect(self.url), owned=True)

            async def check_server(self):
                ...
    """

    name: str
    dialect: SqlDialect

    def __init__(self, table: str = DEFAULT_TABLE) -> None:
        super().__init__(lambda: self._open(table))

    def connect(self) -> MaybeAwaitable[Connected]:
        """Opens a connection: a client, and whether the backend closes it."""
        raise NotImplementedError(f"{type(self).__name__} has no connect()")

    def check_server(self) -> MaybeAwaitable[None]:
        """Refuses a server that cannot keep the promise, by raising."""

    def _open(self, table: str) -> _anarchon.Backend:
        dialect = self.dialect
        texts = {
            "bigint": dialect.bigint,
            "nowMs": dialect.now_ms,
            "forUpdate": dialect.for_update,
            "extraTables": list(dialect.extra_tables(table)),
        }
        name = type(self).__name__
        self._client = WrappedClient(name, self.connect, self.check_server, dialect)
        return self._client.open(self.name, texts, {"table": table})


def client_of(database: Any) -> SqlClient:
    """Refuses what cannot be a client."""
    if callable(getattr(database, "all", None)) and callable(
        getattr(database, "transaction", None)
    ):
        client: SqlClient = database
        return client
    raise InvalidOptionError(
        f"database is {database!r}; allowed is a client with the methods all(sql, params) and "
        "transaction(fn); from_sqlite3, from_asyncpg, from_psycopg and from_sqlalchemy make one of "
        "a driver"
    )


def one_of(backend: str, what: str, place: Any, database: Any, of_place: Mapping[str, Any]) -> None:
    """Refuses both a place and a client, neither, and with a client what is its own business."""
    if (place is None) == (database is None):
        given = "neither" if place is None else "both"
        raise InvalidOptionError(
            f"{backend} was given {given} of {what} and database; give one of them: a {what}, or a "
            "client that you have"
        )
    if database is None:
        return
    for name, value in of_place.items():
        if value is not None:
            raise InvalidOptionError(
                f"{name} is {value!r}; with database it is the business of your client"
            )


class _Thread:
    """A daemon thread for the calls of one client: drivers bind connections to their thread, and
    what several backends send to one connection must take turns."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], None]] | None = None
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._inbox is None:
                self._inbox = SimpleQueue()
                threading.Thread(
                    target=_work_off, args=(self._inbox,), name="anarchon-sql", daemon=True
                ).start()
            self._inbox.put(work)

    def end(self) -> None:
        """Ends the thread after what was submitted; a later call makes a new one."""
        with self._lock:
            if self._inbox is not None:
                self._inbox.put(_stop)
                self._inbox = None


# Threads of clients that cannot carry their own: those with __slots__.
_carried: dict[int, tuple[Any, _Thread]] = {}


def _thread_of(client: Any, otherwise: _Thread) -> _Thread:
    """The thread of a client, one however many backends share it; `otherwise` if it has none."""
    fields = getattr(client, "__dict__", None)
    if fields is None:
        return _carried.setdefault(id(client), (client, otherwise))[1]
    found: _Thread = fields.setdefault("_anarchon_thread", otherwise)
    return found


def _stop() -> None:
    raise StopIteration


def _work_off(inbox: SimpleQueue[Callable[[], None]]) -> None:
    with suppress(StopIteration):
        while True:
            inbox.get()()


class _Asked:
    """An object whose methods the core calls: members by name, plain ones in a thread."""

    def __init__(self) -> None:
        self.number = register(self)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def _submit(self, work: Callable[[], None]) -> None:
        raise NotImplementedError

    def _member(self, call: _anarchon.HostCall) -> Callable[[], Any]:
        raise NotImplementedError

    def _message(self, kind: str, first: Any, second: Any) -> None:
        if kind == "forget":
            task = self._tasks.get(first)
            if task is not None:
                task.cancel()
            return
        call: _anarchon.HostCall = first
        loop = asyncio.get_running_loop()
        try:
            act = self._member(call)
        except BaseException as error:
            tell_thrown(call, error)
            return
        if inspect.iscoroutinefunction(act):
            self._begin_task(call, act())
        else:
            self._submit(lambda: self._call_plain(call, loop, act))

    def _call_plain(
        self, call: _anarchon.HostCall, loop: asyncio.AbstractEventLoop, act: Callable[[], Any]
    ) -> None:
        try:
            answer = act()
            if inspect.isawaitable(answer):
                loop.call_soon_threadsafe(self._begin_task, call, answer)
                return
            text = json.dumps(answer)
        except BaseException as error:
            tell_thrown(call, error)
        else:
            call.returned(text)

    def _begin_task(self, call: _anarchon.HostCall, answer: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._wait(call, answer))
        self._tasks[call.id] = task
        task.add_done_callback(lambda _ended: self._tasks.pop(call.id, None))

    async def _wait(self, call: _anarchon.HostCall, answer: Any) -> None:
        try:
            text = json.dumps(await answer)
        except BaseException as error:
            tell_thrown(call, error)
        else:
            call.returned(text)


class WrappedClient(_Asked):
    """A user's client and dialect as the one object that the native engine talks to."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Any],
        check_server: Callable[[], Any] | None,
        dialect: SqlDialect | None,
    ) -> None:
        super().__init__()
        self._name = name
        self._connect = connect
        self._check_server = check_server
        self._dialect = dialect
        self._client: Any = None
        self._thread = _Thread()

    @staticmethod
    def of(database: Any) -> WrappedClient:
        """Wraps a client that is there already; it is closed only if an adapter opened it."""
        client = client_of(database)
        owned = bool(getattr(client, "opened_here", False))
        return WrappedClient(type(client).__name__, lambda: Connected(client, owned), None, None)

    def open(self, name: str, dialect: Any, options: Mapping[str, Any]) -> _anarchon.Backend:
        """The native engine; nothing of the user's is called yet. Whoever holds it holds this
        too."""
        members = ["connect", "check_server", "all", "transaction", "close"]
        facts = {"class": self._name, "members": members, "takes": []}
        given = {key: value for key, value in options.items() if value is not None}
        told = {"name": name, "table": DEFAULT_TABLE, "dialect": dialect, **given}
        return _anarchon.host_sql(self.number, json.dumps(facts), json.dumps(told))

    def _submit(self, work: Callable[[], None]) -> None:
        self._thread.submit(work)

    def _member(self, call: _anarchon.HostCall) -> Callable[[], Any]:
        positional, _ = json.loads(call.arguments())
        member = call.member
        if member == "connect":
            return _after(self._connect, self._connected)
        if member == "check_server":
            return self._check_server or (lambda: None)
        if member == "close":
            return self._close()
        client = self._client
        if client is None:
            raise BackendUnavailableError(f"{self._name} is not connected")
        if member == "all":
            return sending(client, self._dialect, *positional)
        return self._transaction(client, call)

    def _connected(self, answer: Any) -> dict[str, bool]:
        try:
            client, owned = answer
        except (TypeError, ValueError):
            raise InvalidOptionError(
                f"{self._name}.connect() answered {answer!r}; allowed is Connected(client, owned)"
            ) from None
        self._client = client_of(client)
        thread = _thread_of(client, self._thread)
        if thread is not self._thread:
            self._thread.end()
            self._thread = thread
        return {"owned": bool(owned)}

    def _close(self) -> Callable[[], Any]:
        client, self._client = self._client, None
        close = getattr(client, "close", None)

        def ended(_answer: Any) -> None:
            self._thread.end()

        return _after(close if callable(close) else lambda: None, ended)

    def _transaction(self, client: Any, call: _anarchon.HostCall) -> Callable[[], Any]:
        bridge = LoopBridge.of_this_loop()
        body = _Body(bridge, call, self._dialect)
        if takes_function(client.transaction):
            if inspect.iscoroutinefunction(client.transaction):

                async def run() -> None:
                    await client.transaction(body)

                return run
            return _after(lambda: client.transaction(body), lambda _ignored: None)

        def enter() -> Any:
            manager = client.transaction()
            if hasattr(manager, "__aenter__"):
                return body.within(manager)
            with manager as tx:
                body.block(tx)
            return None

        if inspect.iscoroutinefunction(client.all):

            async def enter_on_loop() -> None:
                answer = enter()
                if inspect.isawaitable(answer):
                    await answer

            return enter_on_loop
        return enter


class _Body:
    """What a transaction runs, as the function that is given to the driver."""

    def __init__(
        self, bridge: LoopBridge, call: _anarchon.HostCall, dialect: SqlDialect | None
    ) -> None:
        self._bridge = bridge
        self._call = call
        self._dialect = dialect

    def __call__(self, tx: Any) -> Any:
        """On a loop something to await; in a thread it blocks."""
        if asyncio._get_running_loop() is not None:
            return self.wait(tx)
        return self.block(tx)

    async def wait(self, tx: Any) -> None:
        """Runs the body on a transaction whose statements are sent from the loop."""
        target = WrappedTransaction(tx, self._dialect, None)
        await self._bridge.call(self._call.run_body, target.number)

    async def within(self, manager: Any) -> None:
        """Runs the body within an async context manager."""
        async with manager as tx:
            await self.wait(tx)

    def block(self, tx: Any) -> None:
        """Runs the body on a transaction whose statements are sent from this thread."""
        inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        target = WrappedTransaction(tx, self._dialect, inbox)
        work = self._bridge.call(self._call.run_body, target.number)
        ended = asyncio.run_coroutine_threadsafe(work, self._bridge.loop())
        ended.add_done_callback(lambda _ended: inbox.put(_stop))
        _work_off(inbox)
        ended.result()


class WrappedTransaction(_Asked):
    """A transaction of the user's client as the native engine talks to it."""

    def __init__(
        self,
        tx: Any,
        dialect: SqlDialect | None,
        inbox: SimpleQueue[Callable[[], None]] | None,
    ) -> None:
        super().__init__()
        self._tx = tx
        self._dialect = dialect
        self._inbox = inbox

    def _submit(self, work: Callable[[], None]) -> None:
        if self._inbox is None:
            work()  # A plain method among async ones: on the loop, as its driver means it.
        else:
            self._inbox.put(work)

    def _member(self, call: _anarchon.HostCall) -> Callable[[], Any]:
        positional, _ = json.loads(call.arguments())
        if call.member == "serialize":
            dialect = self._dialect
            if dialect is None:
                return lambda: None
            serialize, job = dialect.serialize, positional[0]
            if inspect.iscoroutinefunction(serialize):

                async def wait() -> None:
                    await serialize(self._tx, job)

                return wait
            return _after(lambda: serialize(self._tx, job), lambda _ignored: None)
        return sending(self._tx, self._dialect, *positional)


def takes_function(transaction: Any) -> bool:
    """Whether `transaction` takes the function to run, and is no context manager's maker."""
    try:
        inspect.signature(transaction).bind()
    except TypeError:
        return True
    except ValueError:
        return True
    return False


def _after(act: Callable[[], Any], then: Callable[[Any], Any]) -> Callable[[], Any]:
    """Calls one function after another, whether the first is async, hands out work, or is plain."""

    async def wait(answer: Any) -> Any:
        return then(await answer)

    if inspect.iscoroutinefunction(act):

        async def run() -> Any:
            return then(await act())

        return run

    def call() -> Any:
        answer = act()
        return wait(answer) if inspect.isawaitable(answer) else then(answer)

    return call


def sending(
    queryable: Any, dialect: SqlDialect | None, sql: str, params: list[Any]
) -> Callable[[], Any]:
    """Sends a statement as the dialect wants it."""
    creates = re.match(r"\s*CREATE\b", sql, re.IGNORECASE) is not None
    written = sql if dialect is None else dialect.placeholders(sql)

    def forgiven(error: BaseException) -> bool:
        return creates and dialect is not None and dialect.is_already_created(error)

    async def wait(answer: Any) -> Any:
        try:
            return rows_of(await answer)
        except Exception as error:
            if forgiven(error):
                return []
            raise

    if inspect.iscoroutinefunction(queryable.all):

        async def run() -> Any:
            return await wait(queryable.all(written, params))

        return run

    def call() -> Any:
        try:
            answer = queryable.all(written, params)
            return wait(answer) if inspect.isawaitable(answer) else rows_of(answer)
        except Exception as error:
            if forgiven(error):
                return []
            raise

    return call


def rows_of(answer: Any) -> Any:
    """Rows as plain values; what is none is shown, and refused by the core."""
    if answer is None:
        return []
    try:
        return [_row(row) for row in answer]
    except TypeError:
        return repr(answer)


def _row(row: Any) -> Any:
    if isinstance(row, Mapping):
        return {str(name): _value(value) for name, value in row.items()}
    if hasattr(row, "keys"):
        return {str(name): _value(row[name]) for name in row.keys()}  # noqa: SIM118
    if hasattr(row, "_mapping"):
        return {str(name): _value(value) for name, value in row._mapping.items()}
    return repr(row)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, (dict, list)):
        return value
    return str(value)
