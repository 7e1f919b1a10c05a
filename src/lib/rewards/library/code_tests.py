"""Runs the Python code of the completion against the tests of the row: the share that passes. No tests: no reward.

column: the column with the tests: a list of texts with assert statements, a text, or a list of {input, output}, for
programs that read their standard input and print (white space at line ends does not count). all: 1 only if every test
passes, else 0. seconds: for one test; what cannot be interrupted (a regular expression, a huge power) runs into the
deadline of the sample. The code: the last block fenced with ```python that defines something, else the last fenced
block, else the whole completion.

The code gets builtins of its own, copies of the usual modules of the standard library, and neither frames nor the
attributes that lead to them. Threads run at once where they start; os has the standard streams and nothing else; what
logs, warns or tests does nothing. It never sees the expected values. Tests are compiled apart from it, with the real
builtins; what they compare must not have operators that the code wrote, unless the tests name such a class.
Still foolable: a function that changes its argument where the test uses it again (`f(x) == sorted(x)`); classes of the
code with operators that lie, where the tests name these classes; tests whose `assert` compares nothing; and code made
on purpose to climb out through a library function that reads attributes by a computed name.
"""
import ast
import builtins
import collections
import fractions
import io
import itertools
import json
import posixpath
import re
import sys
import textwrap
import time
import types
import warnings

MODULES = """__future__ abc array base64 binascii bisect calendar cmath collections collections.abc contextlib copy csv
dataclasses datetime decimal difflib enum fractions functools hashlib heapq html io itertools json keyword math numbers
operator queue random re statistics string struct textwrap time typing unicodedata uuid zlib""".split()
# They read attributes by name, evaluate text, or open files.
LEFT_OUT = set("""Formatter get_type_hints ForwardRef evaluate_forward_ref singledispatch singledispatchmethod
update_wrapper make_dataclass get_annotations open open_code FileIO OpenWrapper""".split())
QUIET = "doctest faulthandler gc locale logging pprint resource signal timeit traceback unittest warnings".split()
# Names that lead from a value to the world around it. Whoever defines them as methods leads nowhere.
LEADING = {f"__{name}__" for name in """globals builtins code closure subclasses base bases mro self func wrapped loader
spec traceback context cause reduce reduce_ex getattribute get""".split()}
FORBIDDEN = re.compile(r"\b(?:tb_(?:frame|next)|f_(?:back|globals|locals|builtins|code)|(?:gi|cr|ag)_(?:frame|code)|_getframe\w*)\b")
OUTPUT_BYTES = 1 << 20
RECURSION = 100_000
TIMEOUTS = 2  # after so many the other tests are not tried
TOOL, EVENTS, set_events = 4, sys.monitoring.events, sys.monitoring.set_events
SAME, VALUE, ITEMS, CALLED, TRUTH = (f"{n} of the judge" for n in "same value items called truth".split())  # no identifiers


class Refused(Exception):
    pass


class TooLong(BaseException):
    pass


def forbidden(name):
    return name in LEADING or FORBIDDEN.fullmatch(name) is not None


def checked(source, filename, mode="exec"):
    """Compiled, if it names nothing that leads out of its world."""
    tree = ast.parse(source, filename, mode)
    for node in ast.walk(tree):
        is_method = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for field, found in ast.iter_fields(node):
            if field == "name" and is_method:
                continue
            for each in found if isinstance(found, list) else (found,):
                if isinstance(each, str) and (forbidden(each) or (isinstance(node, ast.Constant) and hides(each))):
                    raise Refused(each[:100])
    return compile(tree, filename, mode, dont_inherit=True)


def hides(text):
    return FORBIDDEN.search(text) is not None or any(forbidden(word) for word in re.findall(r"__\w+?__", text))


def by_name(real):
    def guarded(owner, name, *rest):
        if type(name) is not str or forbidden(name):
            raise AttributeError("not available")
        return real(owner, name, *rest)

    return guarded


def attrgetter(*names):
    read = by_name(getattr)

    def one(owner, path):
        for name in path.split("."):
            owner = read(owner, name)
        return owner

    return lambda owner: one(owner, names[0]) if len(names) == 1 else tuple(one(owner, name) for name in names)


def methodcaller(name, *given, **named):
    return lambda owner: by_name(getattr)(owner, name)(*given, **named)


def wraps(wrapped, *_, **__):
    def dressed(wrapper):
        wrapper.__name__ = getattr(wrapped, "__name__", wrapper.__name__)
        wrapper.__doc__ = getattr(wrapped, "__doc__", None)
        return wrapper

    return dressed


def cached(function):
    """functools.cache in Python: recursion through that in C ends where the stack of the machine does."""
    kept = {}

    def once(*given, **named):
        key = (given, *named.items()) if named else given
        if key not in kept:
            kept[key] = function(*given, **named)
        return kept[key]

    once.cache_clear = kept.clear
    once.cache_info = lambda: f"CacheInfo(currsize={len(kept)})"
    return wraps(function)(once)


def lru_cache(maxsize=128, typed=False):
    return cached(maxsize) if callable(maxsize) else cached


REPLACED = {
    "functools": {"wraps": wraps, "cache": cached, "lru_cache": lru_cache},
    "operator": {"attrgetter": attrgetter, "methodcaller": methodcaller},
    "time": {"sleep": lambda seconds: None},
}


def copy_of(module):
    copied = types.ModuleType(module.__name__)
    for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
        found = getattr(module, name, None)
        if name not in LEFT_OUT and not isinstance(found, types.ModuleType):
            setattr(copied, name, found)
    for name, found in REPLACED.get(module.__name__, {}).items():
        setattr(copied, name, found)
    return copied


class Quiet:
    """Stands for a module, and all that is in it, that a program may name and whose work does not matter here."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __iter__(self):
        return iter(())

    def __mro_entries__(self, bases):
        return ()


class Thread:
    def __init__(self, group=None, target=None, name=None, args=(), kwargs=None, daemon=None):
        self.name, self.daemon, self._work = name, daemon, (target, args, kwargs or {})

    def run(self):
        work, given, named = self._work
        if work:
            work(*given, **named)

    def start(self):
        self.run()

    def join(self, timeout=None):
        pass

    def is_alive(self):
        return False


class Threading(Quiet):
    Thread = Thread
