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


REAL = {name: __import__(name, fromlist=["_"]) for name in MODULES}
# What datetime.strptime asks for by itself, with the importer of the code.
STRPTIME = __import__("_strptime")
MRO, OWN = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__  # a metaclass has no say in them
# By id: a metaclass may say what a class equals.
PLAIN = {id(kind) for kind in (int, float, bool, str, bytes, complex, type(None))}
KNOWN = {id(e): e for m in (builtins, *REAL.values()) for e in vars(m).values() if isinstance(e, type)}
KNOWN |= {id(type(e)): type(e) for e in ({}.keys(), {}.items(), {}.values(), [].append, Quiet().__exit__, re.compile(""), ...)}
KNOWN.pop(id(types.MappingProxyType), None)  # it compares as what it stands for does
TRUSTED = {id(kind): dict(vars(kind)) for kind in (collections.Counter, fractions.Fraction)}
WRITTEN_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType, type(None))
VIEWS = (type({}.keys()), type({}.items()), type({}.values()))
SEARCHED = (list, tuple, set, frozenset, dict, str, bytes, range, *VIEWS)
CONTAINERS = (list, tuple, set, frozenset, collections.deque)
OPERATORS = {f"__{side}{name}__" for side in ("", "r", "i") for name in """add sub mul truediv floordiv mod pow matmul and
or xor lshift rshift divmod""".split()} | {f"__{name}__" for name in "eq ne lt le gt ge contains".split()}


def is_as_it_was(kind):
    now, before = OWN(kind), TRUSTED[id(kind)]
    return len(now) == len(before) and all(now.get(name) is found for name, found in before.items())


def honest(kind, also):
    """Whether no operator of a type was written by the code: one that is sees what it is compared with."""
    if id(kind) in also:
        return True
    if id(kind) in TRUSTED:
        return is_as_it_was(kind)
    for each in MRO(kind):
        own = OWN(each)
        for name in OPERATORS & own.keys():
            if id(each) not in KNOWN or not isinstance(own[name], WRITTEN_IN_C):
                return False
    return True


def lies(value, also=(), depth=0):
    """Whether something in the value may say what it likes when it is compared. `also`: ids of types that do not."""
    kind = type(value)
    if id(kind) in PLAIN:
        return False
    if depth > 100 or not honest(kind, also):
        return True
    if kind is fractions.Fraction:
        return not type(value._numerator) is type(value._denominator) is int
    bases = MRO(kind)
    inside = [base.__iter__(value) for base in CONTAINERS if any(each is base for each in bases)]
    if any(each is dict for each in bases):
        inside += [dict.keys(value), dict.values(value)]
    if any(kind is each for each in VIEWS):
        inside.append(value)
    return any(lies(each, also, depth + 1) for group in inside for each in group)


def lines_of(value):
    """The input or output of a program: a text, a list of lines, or something that is written as one."""
    return "" if value is None else "\n".join(map(str, value)) if isinstance(value, list) else str(value)


class Input(io.BytesIO):
    def fileno(self):
        return 0


class Output(io.BytesIO):
    def fileno(self):
        return 1

    def write(self, more):
        if self.tell() + len(more) > OUTPUT_BYTES:
            raise OSError("too much output")
        return super().write(more)


class World:
    """Builtins, modules and streams for one run of the code."""

    def __init__(self, name, stdin=""):
        self.stdin = io.TextIOWrapper(Input(stdin.encode()), encoding="utf-8")
        self.output = Output()
        self.stdout = io.TextIOWrapper(self.output, encoding="utf-8", write_through=True)
        self.stdin.mode, self.stdout.mode = "r", "w"
        self.modules = {"sys": self._sys(), "os": self._os(), "threading": Threading(), "_strptime": self._strptime()}
        left = ("compile", "breakpoint", "help", "copyright", "credits", "license", "exit", "quit", "input", "print")
        own = {n: v for n, v in vars(builtins).items() if n not in left and not n.startswith("__")}
        own |= {n: by_name(vars(builtins)[n]) for n in ("getattr", "setattr", "delattr", "hasattr")}
        own |= {"__build_class__": builtins.__build_class__, "__import__": self._import, "__name__": "builtins"}
        own |= {"print": self._print, "input": self._input, "eval": self._eval, "exec": self._exec}
        own |= {"exit": self._exit, "quit": self._exit, "open": self._open}
        self.names = {"__name__": name, "__builtins__": own}

    def _sys(self):
        fake = types.ModuleType("sys")
        for name in ("maxsize", "version", "version_info", "float_info", "int_info", "byteorder", "getsizeof", "intern"):
            setattr(fake, name, getattr(sys, name))
        fake.stdin, fake.stdout, fake.stderr = self.stdin, self.stdout, io.StringIO()
        fake.argv, fake.exit, fake.path, fake.platform = ["solution.py"], self._exit, [], "linux"
        fake.setrecursionlimit = lambda limit: sys.setrecursionlimit(min(limit, RECURSION))
        fake.getrecursionlimit, fake.set_int_max_str_digits = sys.getrecursionlimit, sys.set_int_max_str_digits
        return fake

    def _os(self):
        fake = types.ModuleType("os")
        fake.environ, fake.getenv, fake.linesep, fake.sep, fake.name = {}, (lambda name, default=None: default), "\n", "/", "posix"
        fake.getcwd, fake.cpu_count, fake.system, fake._exit = (lambda: "/"), (lambda: 1), (lambda command: 0), self._exit
        fake.read = lambda fd, count: self.stdin.buffer.read(count)
        fake.write = lambda fd, more: (self.output if fd == 1 else io.BytesIO()).write(more)
        fake.fstat = lambda fd: types.SimpleNamespace(st_size=len(self.stdin.buffer.getvalue()))
        fake.path = types.ModuleType("os.path")
        for name in ("join", "basename", "dirname", "split", "splitext", "normpath", "isabs"):
            setattr(fake.path, name, getattr(posixpath, name))
        fake.path.exists = fake.path.isfile = fake.path.isdir = lambda path: False
        return fake

    def _strptime(self):
        fake = types.ModuleType("_strptime")
        for name in [n for n in dir(STRPTIME) if n.startswith("_strptime")]:
            setattr(fake, name, getattr(STRPTIME, name))
        return fake

    def _open(self, file, mode="r", *_, **__):
        if file not in (0, 1, "/dev/stdin", "/dev/stdout"):
            raise FileNotFoundError(f"No such file: {file!r}")
        stream = self.stdin if file in (0, "/dev/stdin") else self.stdout
        return stream.buffer if "b" in mode else stream

    def _import(self, name, names=None, locals=None, fromlist=(), level=0):
        if not level and name.split(".")[0] in QUIET:
            return Quiet()
        if level or (name not in REAL and name not in self.modules):
            raise ModuleNotFoundError(f"No module named {name!r}")
        for each in {name, name.split(".")[0]}:
            if each not in self.modules:
                self.modules[each] = copy_of(REAL[each])
        if "." in name:
            setattr(self.modules[name.split(".")[0]], name.split(".")[1], self.modules[name])
        return self.modules[name] if fromlist else self.modules[name.split(".")[0]]

    def _print(self, *values, sep=" ", end="\n", file=None, flush=False):
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        (self.modules["sys"].stdout if file is None else file).write(text)

    def _input(self, prompt=""):
        self.stdout.write(str(prompt))
        line = self.modules["sys"].stdin.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.removesuffix("\n")

    def _eval(self, text, names=None, locals=None):
        return eval(checked(text.strip(), "solution.py", "eval"), *self._names(names, locals, sys._getframe(1)))

    def _exec(self, text, names=None, locals=None):
        exec(checked(text, "solution.py"), *self._names(names, locals, sys._getframe(1)))

    def _names(self, names, locals, caller):
        """Those of the caller, where none are given."""
        own = self.names["__builtins__"]
        if names is None:
            is_code = caller.f_globals.get("__builtins__") is own
            names, locals = (caller.f_globals, caller.f_locals) if is_code else (self.names, None)
        names["__builtins__"] = own
        return names, locals

    def _exit(self, code=None):
        raise SystemExit(code)


class Alarm:
    """Ends Python code after some seconds: at a jump or a call, and again at each one until it has ended."""

    def __init__(self, seconds):
        self.rung = False
        until, ticks, clock = time.perf_counter() + seconds, itertools.count(), time.perf_counter

        def tick(*_):
            if self.rung or (next(ticks) & 63 == 0 and clock() > until):
                self.rung = True
                raise TooLong

        for event in (EVENTS.JUMP, EVENTS.PY_START):
            sys.monitoring.register_callback(TOOL, event, tick)


class Judged(ast.NodeTransformer):
    """Operators, calls and asserts of a test go through the judge."""

    def through(self, name, *given):
        return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(given), keywords=[])

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            same = self.through(SAME, node.left, node.comparators[0])
            return same if isinstance(node.ops[0], ast.Eq) else ast.UnaryOp(op=ast.Not(), operand=same)
        node.left = self.through(VALUE, node.left)
        inside = [isinstance(each, (ast.In, ast.NotIn)) for each in node.ops]
        node.comparators = [self.through(ITEMS if is_in else VALUE, each) for each, is_in in zip(node.comparators, inside)]
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        node.left, node.right = self.through(VALUE, node.left), self.through(VALUE, node.right)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        node.func = self.through(CALLED, node.func)
        return node

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = self.through(TRUTH, node.test)
        return node


def compiled_tests(text):
    """Statements to run in order, each with whether it is a test; the names in them; the classes that they make."""
    tree = ast.parse(text, "tests.py")
    top = [isinstance(each, ast.Assert) for each in tree.body]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    tree = ast.fix_missing_locations(Judged().visit(tree))
    # A text without an assert at its top is one test.
    groups = [([each], is_test) for each, is_test in zip(tree.body, top)] if any(top) else [(tree.body, True)]
    return [(compile(ast.Module(body, []), "tests.py", "exec"), is_test) for body, is_test in groups], names, classes


def judge_names(names, classes, solution):
    """What a test sees: the code's names, and the judge's."""
    own_classes = any(isinstance(solution.get(n), type) and id(solution[n]) not in KNOWN for n in names)
    used = [n for n in names if n in solution]
    # A builtin is what it is, unless it is the only thing of the code that is tested: `assert max(1, 2) == 2`.
    hidden = set() if all(hasattr(builtins, n) for n in used) else {n for n in used if hasattr(builtins, n)}
    seen = {n: v for n, v in solution.items() if n not in hidden and not n.startswith("__")}

    def lying(found):
        return lies(found, [id(seen[n]) for n in classes if n in seen and seen[n] is not solution.get(n)])

    def value(found):
        if not own_classes and lying(found):
            raise AssertionError("a value with operators that the code wrote")
        return found

    def same(left, right):
        return lying(left) == lying(right) and bool(value(left) == value(right))

    def items(found):
        return value(found if own_classes or any(type(found) is kind for kind in SEARCHED) else list(value(found)))

    def called(found):
        # What a function of a library does with its arguments goes past the judge.
        if own_classes or getattr(found, "__module__", None) in (None, "builtins", "tests", "solution"):
            return found
        return lambda *given, **named: found(*map(value, given), **named)

    judge = {SAME: same, VALUE: value, ITEMS: items, CALLED: called, TRUTH: lambda v: bool(value(v))}
    seen |= {"__name__": "tests", "__builtins__": builtins, **judge}
    return seen


def block_of(text):
    blocks = re.findall(r"```[ \t]*(\w*)[^\n`]*\n(.*?)(^[ \t]*```|\Z)", text, re.S | re.M)
    blocks = [(name.lower(), textwrap.dedent(code if end else code.split("```")[0]), end) for name, code, end in blocks]
    python = [code for name, code, _ in blocks if name in ("python", "python3", "py", "py3")]
    defining = [code for code in python if re.search(r"^\s*(?:async\s+def|def|class)\s", code, re.M)]
    fenced = defining or python or [code for name, code, end in blocks if name == "" and end]
    return fenced[-1] if fenced else text


class Tally:
    def __init__(self, seconds):
        self.seconds, self.passed, self.count, self.late = seconds, 0, 0, 0

    def attempt(self, work):
        """Whether the work ended by itself and without a complaint."""
        if self.late >= TIMEOUTS:
            return False
        alarm = Alarm(self.seconds)
        ended = False
        # Switched off by a call that is no Python function: the start of one would ring again.
        try:
            try:
                set_events(TOOL, EVENTS.JUMP | EVENTS.PY_START)
                work()
            finally:
                set_events(TOOL, 0)
            ended = True
        except BaseException:
            pass
        self.late += alarm.rung
        return ended and not alarm.rung

    def note(self, passed):
        self.count += 1
        self.passed += passed


def run_asserts(code, texts, tally):
    world = World("solution")
    began = tally.attempt(lambda: exec(code, world.names)) if code else False
    for text in texts:
        statements, names, classes = compiled_tests(text)
        seen = judge_names(names, classes, world.names)
        for statement, is_test in statements:
            ended = began and tally.attempt(lambda: exec(statement, seen))
            if is_test:
                tally.note(ended)
            elif not ended:
                began = False


def run_program(code, test, tally):
    if "output" not in test:
        raise ValueError(f"a test has no output, but: {', '.join(map(str, test))[:80] or 'nothing'}")
    world = World("__main__", lines_of(test.get("input")))

    def work():
        try:
            exec(code, world.names)
        except SystemExit as end:
            if end.code:
                raise
        world.modules["sys"].stdout.flush()

    lines = lambda text: [line.rstrip() for line in text.rstrip().split("\n")]
    ended = bool(code) and tally.attempt(work)
    tally.note(ended and lines(world.output.getvalue().decode(errors="replace")) == lines(lines_of(test["output"])))


def reward(completions, column="tests", all=False, seconds=1.0, **columns):
    def one(completion, tests):
        if isinstance(tests, str) and tests.lstrip().startswith("["):
            try:
                tests = json.loads(tests)
            except ValueError:
                pass
        tests = [tests] if isinstance(tests, (str, dict)) else tests
        if not tests:
            return None
        if not isinstance(tests, list) or not builtins.all(isinstance(each, (str, dict)) for each in tests):
            raise ValueError(f"the column {column!r} must have asserts, or pairs of input and output")
        tally = Tally(seconds)
        try:
            code = checked(block_of(text_of(completion)), "solution.py")
        except (SyntaxError, ValueError, Refused, RecursionError, MemoryError):
            code = None
        depth, digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
        sys.setrecursionlimit(2 * depth)  # `cached` is a call of its own, which that in C is not
        try:
            run_asserts(code, [t for t in tests if isinstance(t, str)], tally)
            for test in tests:
                if isinstance(test, dict):
                    run_program(code, test, tally)
        finally:
            sys.setrecursionlimit(depth)
            sys.set_int_max_str_digits(digits)
        if tally.count == 0:
            return None
        return float(tally.passed == tally.count) if all else tally.passed / tally.count

    warnings.simplefilter("ignore")  # about the syntax of completions
    if not sys.monitoring.get_tool(TOOL):
        sys.monitoring.use_tool_id(TOOL, "code_tests")
    return [one(c, t) for c, t in zip(completions, column_of(columns, column, len(completions)))]
