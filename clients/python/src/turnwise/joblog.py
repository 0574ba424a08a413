"""Python's ``logging`` as the job's log."""

from __future__ import annotations

import logging

from . import _context


class JobLogHandler(logging.Handler):
    """Sends what a task logs to the log of its job: ``logging.getLogger().addHandler(JobLogHandler())``.

    What is logged outside of a task is left to other handlers. In the process of a stoppable task the same loggers have it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        run = _context.current.get()
        if run is None:
            return
        try:
            run.log(self.format(record), _level(record.levelno))
        except Exception:
            self.handleError(record)


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warn"
    return "info" if number >= logging.INFO else "debug"


def attached() -> list[tuple[str, int, int]]:
    """The loggers of this process that have such a handler, with their levels and its own."""
    loggers = [logging.getLogger(), *(one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger))]
    return [
        (logger.name if logger.parent else "", logger.level, handler.level)
        for logger in loggers
        for handler in logger.handlers
        if isinstance(handler, JobLogHandler)
    ]
