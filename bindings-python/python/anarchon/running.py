"""The runs of one scheduler in this process: handlers begun, cancelled and ended."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any

from . import _anarchon
from ._bridge import LoopBridge
from ._workers import Workers
from .context import JobContext
from .handlers import ReadHandler, output_text, tell_thrown


class Runs:
    """What is running: async handlers as tasks of the loop, plain ones in threads of ours."""

    def __init__(self) -> None:
        self.handlers: dict[int, ReadHandler] = {}
        """The handlers, by the numbers under which the core knows them."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.prepare()

    def prepare(self) -> None:
        """At a start: handlers see the context variables of whoever starts, and threads are made
        anew, for a child of fork has none."""
        self._context = contextvars.copy_context()
        self._workers = Workers("anarchon-handler")

    def begin(self, number: int, run: _anarchon.Run) -> None:
        """Runs a handler."""
        try:
            self._begin(LoopBridge.of_this_loop(), self.handlers[number], run)
        except BaseException as error:
            # No thread to be had, for example: the run fails, rather than to stay open for ever.
            tell_thrown(run, error)

    def cancel(self, run: int) -> None:
        """Cancels a task; a plain function looks for itself."""
        task = self._tasks.get(run)
        if task is not None:
            task.cancel()

    def _begin(self, bridge: LoopBridge, handler: ReadHandler, run: _anarchon.Run) -> None:
        context = JobContext(run, bridge, threaded=not handler.is_async)
        if handler.is_async:
            self._begin_task(bridge, run, context, handler.call, context)
        else:
            variables = self._context.copy()
            self._workers.submit(
                lambda: variables.run(self._run_plain, bridge, run, context, handler)
            )

    def _begin_task(
        self,
        bridge: LoopBridge,
        run: _anarchon.Run,
        context: JobContext,
        call: Callable[..., Any],
        *arguments: Any,
    ) -> None:
        work = self._run_async(bridge, run, call, *arguments)
        # The task copies the context that it is created in.
        task = self._context.copy().run(bridge.loop().create_task, work)
        task.set_name(f"anarchon:{context.job}")
        self._tasks[run.id] = task
        task.add_done_callback(lambda ended: self._task_done(run, ended))
        if run.cancelled:
            task.cancel()

    async def _run_async(
        self, bridge: LoopBridge, run: _anarchon.Run, call: Callable[..., Any], *arguments: Any
    ) -> None:
        try:
            run.entered()
            output = output_text(await call(*arguments))
        except asyncio.CancelledError as error:
            if not run.cancelled and await bridge.is_ending():
                return  # The run is left to its lease, as if the process had ended.
            tell_thrown(run, error)
        except BaseException as error:
            # SystemExit and KeyboardInterrupt too: they end the run, not the loop.
            tell_thrown(run, error)
        else:
            run.returned(output)

    def _task_done(self, run: _anarchon.Run, task: asyncio.Task[None]) -> None:
        self._tasks.pop(run.id, None)
        if task.cancelled():  # Before its first step: the function was never entered.
            tell_thrown(run, asyncio.CancelledError())

    def _run_plain(
        self, bridge: LoopBridge, run: _anarchon.Run, context: JobContext, handler: ReadHandler
    ) -> None:
        try:
            run.entered()
            result = handler.call(context)
            if inspect.iscoroutine(result):
                # A plain function that hands out a coroutine: its work is on the loop.
                bridge.loop().call_soon_threadsafe(
                    self._begin_task, bridge, run, context, lambda: result
                )
                return
            output = output_text(result)
        except BaseException as error:
            tell_thrown(run, error)
        else:
            run.returned(output)
