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


class _Refused(Exception):
    def __init__(self, message, place=(None, None)):
        super().__init__(message)
        self.place = place


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlong = 40


def _shown(value):
    """Short, whatever the value's own methods do."""
    try:
        name = type(value).__name__
        text = _repr.repr(value)
    except BaseException:
        return "a value that cannot be shown"
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name}: {text[:120]}"


def _words(error, most=TEXT_MAX):
    try:
        name, text = type(error).__name__, str(error)
    except BaseException:
        name, text = "Exception", "(its message cannot be shown)"
    if isinstance(error, ModuleNotFoundError):
        text += " (only Python's standard library is there)"
    words = f"{name}: {text}" if text else name
    return words if len(words) <= most else words[: most - 1] + "…"


def _frame(error):
    """The innermost frame of the user's file."""
    found, tb = None, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == FILE:
            found = tb
        tb = tb.tb_next
    return found


def _line(error):
    tb = _frame(error)
    return None if tb is None else tb.tb_lineno


def _column(source, tb):
    """Counted from 1 in characters; CPython counts from 0 in bytes."""
    try:
        _, _, start, _ = next(itertools.islice(tb.tb_frame.f_code.co_positions(), tb.tb_lasti // 2, None))
        line = source.split("\n")[tb.tb_lineno - 1]
        return len(line.encode()[:start].decode(errors="ignore")) + 1
    except BaseException:
        return None


def _fault(kind, message, line=None):
    return {"kind": kind, "message": message[:TEXT_MAX], "line": line}


def _failure(error):
    if isinstance(error, MemoryError):
        return _fault("memory", "the function ran out of memory", _line(error))
    return _fault("exception", _words(error), _line(error))


def _value(found, most=TEXT_MAX):
    """What one sample gets."""
    if type(found) is float:
        number = found
    elif found is None:
        return {"fault": _fault("none", "the function returned None")}
    elif hasattr(type(found), "__float__") or hasattr(type(found), "__index__"):
        try:
            number = float.__add__(float(found), 0.0)
        except OverflowError:
            return {"fault": _fault("not_finite", f"{_shown(found)} is too large for a number")}
        except BaseException as error:
            failed = _failure(error)
            failed["message"] = failed["message"][:most]
            return {"fault": failed}
    else:
        return {"fault": _fault("not_a_number", f"the function returned {_shown(found)}"[:most])}
    if not math.isfinite(number):
        return {"fault": _fault("not_finite", f"the function returned {number!r}")}
    return {"value": number}


def _is_reward(name, found):
    if not (name == "reward" or name.endswith("_reward") or name.startswith("reward_")):
        return False
    if name.startswith("_") or not callable(found) or isinstance(found, (type, types.BuiltinFunctionType)):
        return False
    inner = inspect.unwrap(found)
    return not isinstance(inner, types.FunctionType) or inner.__code__.co_filename == FILE


class _Entry:
    def __init__(self, name, function, source):
        self.name = name
        self.function = function
        self.place = self._find(source)
        try:
            signature = inspect.signature(function, annotation_format=annotationlib.Format.STRING)
        except (TypeError, ValueError) as error:
            raise _Refused(f"`{name}` cannot be called as a reward ({_words(error, 200)}). Write {FORMS}.", self.place)
        self.text = f"{name}{signature.format(quote_annotation_strings=False)}"
        kinds = inspect.Parameter
        parameters = list(signature.parameters.values())
        self.positional = [p.name for p in parameters if p.kind is kinds.POSITIONAL_ONLY]
        self.named = [p.name for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
        self.required = {p.name for p in parameters if p.default is p.empty and p.name in (*self.positional, *self.named)}
        self.takes_all = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        self.form = self._form()

    def _form(self):
        names = {*self.positional, *self.named}
        if "completions" in names:
            return "batch"
        one = names & {"completion", "prompt", "row"}
        many = names & {"prompts", "rows"}
        if one and many:
            both = " and ".join(f"`{n}`" for n in sorted(one | many))
            raise _Refused(f"`{self.name}` takes {both}: one sample or all of them? Write {FORMS}.", self.place)
        if one:
            return "sample"
        if many or self.takes_all:
            return "batch"
        taken = f"`{self.text}` takes neither `completions` nor `completion`" if names else f"`{self.text}` takes nothing"
        raise _Refused(
            f"{taken}. Write {FORMS}. A function that is not a reward needs a name without `reward` at either end.", self.place
        )

    def _find(self, source):
        """Line and column of the definition: a decorated function's code begins at its decorator."""
        inner = inspect.unwrap(self.function)
        code = getattr(inner, "__code__", None)
        name = re.escape(self.name)
        first = code.co_firstlineno if code is not None and code.co_filename == FILE else 1
        sought = re.compile(rf"([ \t]*)(?:(?:async[ \t]+)?def[ \t]+{name}\b|{name}[ \t]*(?::[^=]*)?=(?!=))")
        lines = source.split("\n")
        for number in (*range(first, len(lines) + 1), *range(1, first)):
            match = sought.match(lines[number - 1])
            if match:
                return number, len(match[1]) + 1
        return first, 1

    def described(self):
        function = self.function
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))
        return {
            "name": self.name[:200],
            "signature": self.text[:1000],
            "form": self.form,
            "is_async": is_async,
            "line": self.place[0],
        }

    def call(self, known, columns, params):
        """`known` wins over `columns`, which win over `params`. `columns` makes the value of a column by its name."""
        names = columns.keys()

        def pick(name):
            return known[name] if name in known else columns[name] if name in names else params[name]

        for name in self.required:
            if name not in known and name not in names and name not in params:
                have = ", ".join(sorted(map(str, names))[:20]) or "no columns"
                raise TypeError(f"{self.name}() needs `{name}`, which is neither a column nor a parameter. The rows have: {have}")
        given = [pick(n) for n in itertools.takewhile(lambda n: n in known or n in names or n in params, self.positional)]
        if self.takes_all:
            keywords = {**params, **{n: columns[n] for n in names}, **{n: known[n] for n in known if n != "row" and n != "rows"}}
            for name in self.positional:
                keywords.pop(name, None)
        else:
            keywords = {}
        for name in self.named:
            if name in known or name in names or name in params:
                keywords[name] = pick(name)
        found = self.function(*given, **keywords)
        if hasattr(type(found), "__await__"):
            found = _drive(found)
        return found


class _Columns:
    """The columns of some rows as lists, made when asked for; None where a row lacks one."""

    def __init__(self, rows):
        self.rows = rows
        self.names = dict.fromkeys(name for row in rows for name in row)

    def keys(self):
        return self.names

    def __getitem__(self, name):
        return [row.get(name) for row in self.rows]


def _listed(found, count):
    """The values of a batch call. Of what never ends one more than it should have is read."""
    if isinstance(found, (list, tuple)):
        if len(found) == count:
            return [_value(v, EACH_MAX) for v in found]
        got = str(len(found))
    else:
        # The type decides first: the keys of a dict or the characters of a text are no list of rewards.
        if isinstance(found, (str, bytes, bytearray, dict, set, frozenset)) or not hasattr(type(found), "__iter__"):
            message = f"the function returned {_shown(found)} and not a list of {count} numbers"[:EACH_MAX]
            return [{"fault": _fault("not_a_number", message)}] * count
        taken = list(itertools.islice(iter(found), count + 1))
        if len(taken) == count:
            return [_value(v, EACH_MAX) for v in taken]
        got = str(len(taken)) if len(taken) < count else f"more than {count}"
    message = f"the function returned {got} values for {count} completions"
    return [{"fault": _fault("wrong_length", message)}] * count


# Kept, so that code which replaces them for itself does not replace them here.
_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.loads
_open, _read_some, _write_some, _close = os.open, os.read, os.write, os.close


# A step is counted in tens of microseconds: `open` would take as long again as all the rest.
def _read(path):
    fd = _open(path, os.O_RDONLY)
    try:
        parts = [_read_some(fd, 1 << 18)]
        while parts[-1]:
            parts.append(_read_some(fd, 1 << 18))
    finally:
        _close(fd)
    return b"".join(parts).decode()


def _write(path, text):
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        rest = text.encode()
        while rest:
            rest = rest[_write_some(fd, rest) :]
    finally:
        _close(fd)


class _Harness:
    def __init__(self):
        self.entries = {}
        self.params = {}
        self.module = None
        self.entry = None
        self.request = None
        self.text = None

    def load(self, request):
        source = request["source"]
        self.entries, self.params = {}, request["params"]
        random.seed(request["seed"])
        try:
            self.entries = self._entries(source)
        except _Refused as refused:
            return self._rejected("signature", str(refused), *refused.place)
        except SyntaxError as error:
            if self.module is None:  # of this file, and not of something that it compiles itself
                return self._rejected("syntax", error.msg or "invalid syntax", error.lineno, error.offset)
            return self._thrown(error, source)
        except BaseException as error:
            return self._thrown(error, source)
        return {"ok": True, "entrypoints": [entry.described() for entry in self.entries.values()]}

    def _entries(self, source):
        self.module = None
        code = compile(source, FILE, "exec", dont_inherit=True)
        linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
        module = self.module = types.ModuleType("reward")
        module.__file__ = FILE
        sys.modules["reward"] = module  # dataclasses and typing look their module up
        exec(code, module.__dict__)
        found = {}
        for name, function in list(module.__dict__.items()):
            if isinstance(name, str) and _is_reward(name, function) and all(e.function is not function for e in found.values()):
                found[name] = _Entry(name, function, source)
        if not found:
            raise _Refused(f"There is no function named `reward`, `*_reward` or `reward_*`. Write {FORMS}.", self._nearest(source))
        if len(found) > 64:
            raise _Refused(f"There are {len(found)} reward functions; at most 64 are allowed.")
        return found

    def _nearest(self, source):
        match = re.search(r"^(?:async[ \t]+)?def[ \t]", source, re.M)
        return (source.count("\n", 0, match.start()) + 1, 1) if match else (None, None)

    def _rejected(self, kind, message, line=None, column=None):
        place = {"line": line if line else None, "column": column if column else None}
        return {"ok": False, "error": {"kind": kind, "message": message[:TEXT_MAX], **place}}

    def _thrown(self, error, source):
        tb = _frame(error)
        line, column = (None, None) if tb is None else (tb.tb_lineno, _column(source, tb))
        if isinstance(error, MemoryError):
            nested = "Parser stack" in str(error)
            words = "the code is nested too deeply" if nested else "the code ran out of memory while it was loaded"
            return self._rejected("syntax" if nested else "memory", words, line, column)
        if self.module is None:  # compiling it failed with something else than a SyntaxError
            return self._rejected("syntax", _words(error), line, column)
        return self._rejected("exception", _words(error), line, column)

    def begin(self, request, text):
        self.entry = self.entries[request["entry"]]
        self.request = request
        self.text = text
        return {"ok": True}

    def batch(self):
        request, entry = self.request, self.entry
        count = len(request["rows"])
        if entry.form == "sample":
            return {"ok": True, "values": [self._sample(index, EACH_MAX) for index in range(count)]}
        try:
            return {"ok": True, "values": _listed(self._together(request), count)}
        except BaseException as error:
            # A call that was cut off may have changed its lists: the samples are read anew before each is tried.
            self.request = None
            return {"ok": False, "error": _failure(error)}

    def _together(self, request):
        known = {"prompts": list(request["prompts"]), "completions": list(request["completions"]), "rows": list(request["rows"])}
        return self.entry.call(known, _Columns(request["rows"]), self.params)

    def one(self, index):
        if self.request is None:
            self.request = _decode(self.text)
        if self.entry.form == "sample":
            return {"ok": True, "value": self._sample(index, TEXT_MAX)}
        request = self.request
        alone = {key: [request[key][index]] for key in ("prompts", "completions", "rows")}
        try:
            return {"ok": True, "value": _listed(self._together(alone), 1)[0]}
        except BaseException as error:
            return {"ok": False, "error": _failure(error)}

    def _sample(self, index, most):
        request = self.request
        row = request["rows"][index]
        known = {"prompt": request["prompts"][index], "completion": request["completions"][index], "row": row}
        try:
            return _value(self.entry.call(known, row, self.params), most)
        except BaseException as error:
            failed = _failure(error)
            failed["message"] = failed["message"][:most]
            return {"fault": failed}

    def answer(self, text):
        request = _decode(text)
        op = request["op"]
        if op == "load":
            return self.load(request)
        if op == "begin":
            return self.begin(request, text)
        return self.batch() if op == "batch" else self.one(request["index"])

    def step(self):
        try:
            reply = _encode(self.answer(_read("/tmp/in.json")))
        except BaseException as error:
            reply = _encode({"ok": False, "error": {**_failure(error), "column": None}})
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                pass  # the user's own stream
        _write("/tmp/out.json", reply)


_own_the_loop()
_verk = _Harness()
