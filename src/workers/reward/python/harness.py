"""Lives beside the user's code inside the interpreter and is trusted no more than it: the host checks every reply again.

`_verk.step()` reads one request from /tmp/in.json and leaves one reply in /tmp/out.json (see interpreter.ts). Loaded
once, then kept in a memory snapshot: what is imported here costs no import later.
"""
# ruff: noqa: F401, E401
import abc, array, ast, asyncio, base64, binascii, bisect, calendar, cmath, codecs, collections, collections.abc
import contextlib, copy, csv, dataclasses, datetime, decimal, difflib, enum, fnmatch, fractions, functools, hashlib
import heapq, hmac, html, html.parser, inspect, io, itertools, json, keyword, linecache, locale, math, numbers, operator
import os, pathlib, pprint, queue, random, re, reprlib, shlex, statistics, string, struct, sys, textwrap, threading, time
import tokenize, traceback, types, typing, unicodedata, unittest, urllib.parse, uuid, warnings, weakref, zlib
import _strptime, annotationlib
import xml.etree.ElementTree

FILE = "reward.py"
TEXT_MAX = 2000  # characters of a message that stands alone
EACH_MAX = 300  # of one that is repeated for the samples of a batch
FORMS = (
    "`def reward(completions, prompts=None, **kwargs)` returning a list with one number for each completion, where every"
    " column of the rows is a list among the keyword arguments, or `def reward(prompt, completion, row)` returning one number"
)
RESOLVER_FORMS = "`def resolve(row, **kwargs)` returning a row, a list of rows, or None to leave the row out"


class _Loop(asyncio.BaseEventLoop):
    """Nothing outside can wake it: when no callback is due and no timer runs, nothing will ever happen."""

    def __init__(self):
        super().__init__()
        self._selector = self
        self._clock_resolution = 1e-6

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("the function awaits something that can never finish inside the sandbox")
        if timeout > 0:
            time.sleep(timeout)
        return ()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


class _Policy(asyncio.events._BaseDefaultEventLoopPolicy):
    _loop_factory = _Loop


def _own_the_loop():
    # Pyodide's own loop, `asyncio.run` and `time.sleep` go through the host's, which is out of reach.
    asyncio._set_running_loop(None)
    asyncio.events._set_event_loop_policy(_Policy())
    asyncio.run = getattr(asyncio.run, "__wrapped__", asyncio.run)
    time.sleep = getattr(time.sleep, "__wrapped__", time.sleep)


def _drive(awaitable):
    async def main():
        return await awaitable

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main())
