"""Runs the Python code of the completion against the tests of the row: the share that passes. No tests: no reward.

column: the column with the tests: a list of texts with assert statements, a text, or a list of {input, output}, for
programs that read their standard input and print (white space at line ends does not count). all: 1 only if every test
passes, else 0. seconds: for one test; what cannot be interrupted (a regular expression, a huge power) runs into the
deadline of the sample. The code: the last block fenced with ```python that defines something, else the last fenced
block, else the whole completion.

The code gets builtins of its own, copies of the usual modules of the standard library, and neither frames nor the
attributes that lead to them. It never sees the expected values. Tests are compiled apart from it, with the real
builtins; what they compare must be of types that the code did not make, unless the tests name such a class.
Still foolable: a function that changes its argument where the test uses it again (`f(x) == sorted(x)`); classes of the
code with operators that lie, where the tests name these classes; tests whose `assert` compares nothing; and code made
on purpose to climb out through a library function that reads attributes by a computed name.
"""
import ast
import builtins
import io
import itertools
import json
import re
import sys
import time
import types

MODULES = """abc array base64 bisect calendar cmath collections collections.abc copy dataclasses datetime decimal enum
fractions functools hashlib heapq itertools json math numbers operator queue random re statistics string struct textwrap
time typing unicodedata uuid zlib""".split()
# They read attributes by name, or evaluate text.
LEFT_OUT = set("""attrgetter methodcaller Formatter get_type_hints ForwardRef evaluate_forward_ref singledispatch
singledispatchmethod update_wrapper wraps make_dataclass get_annotations""".split())
REPLACED = {"functools": {"wraps": lambda *_, **__: lambda wrapper: wrapper}, "time": {"sleep": lambda seconds: None}}
# Of the names with two underscores at both ends, those that ordinary code has.
DUNDERS = set("""init new name main doc len str repr eq ne lt le gt ge hash bool call iter next getitem setitem delitem
contains add sub mul truediv floordiv mod pow matmul radd rsub rmul rtruediv rfloordiv rmod rpow iadd isub imul and or xor
invert neg pos abs round int float index enter exit slots post_init missing reversed lshift rshift format
ceil floor trunc divmod future annotations""".split())
FORBIDDEN = re.compile(r"\b(?:tb_(?:frame|next)|f_(?:back|globals|locals|builtins|code)|(?:gi|cr|ag)_(?:frame|code)|_getframe\w*)\b")
OUTPUT_BYTES = 1 << 20
TIMEOUTS = 2  # after so many the other tests are not tried
TOOL, EVENTS, set_events = 4, sys.monitoring.events, sys.monitoring.set_events
SAME, VALUE, TRUTH = "same of the judge", "value of the judge", "truth of the judge"  # no identifier of Python


class Refused(Exception):
    pass


class TooLong(BaseException):
    pass


def forbidden(name):
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        return name[2:-2] not in DUNDERS
    return FORBIDDEN.fullmatch(name) is not None


def checked(source, filename, mode="exec"):
    """Compiled, if it names nothing that leads out of its world."""
    tree = ast.parse(source, filename, mode)
    for node in ast.walk(tree):
        for _, found in ast.iter_fields(node):
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


def copy_of(module):
    copied = types.ModuleType(module.__name__)
    for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
        found = getattr(module, name, None)
        if name not in LEFT_OUT and not isinstance(found, types.ModuleType):
            setattr(copied, name, found)
    for name, found in REPLACED.get(module.__name__, {}).items():
        setattr(copied, name, found)
    return copied


REAL = {name: __import__(name, fromlist=["_"]) for name in MODULES}
KNOWN = {type(e) for m in (builtins, *REAL.values()) for e in vars(m).values()}
KNOWN |= {e for m in (builtins, *REAL.values()) for e in vars(m).values() if isinstance(e, type)}
KNOWN |= {type(e) for e in ((i for i in ()), iter([]), iter(()), iter({}), iter(set()), iter(""), iter(range(0)), {}.keys())}
KNOWN |= {type(e) for e in ({}.values(), {}.items(), reversed([]), [].append, "".join, lambda: 0, re.compile(""), ...)}
CONTAINERS = (list, tuple, set, frozenset, REAL["collections"].deque)


def made_by_code(value, depth=0):
    """Whether a type that the code may have made is in the value: its methods may say what they like."""
    kind = type(value)
    if kind not in KNOWN or depth > 100:
        return True
    if kind in CONTAINERS:
        return any(made_by_code(each, depth + 1) for each in value)
    return isinstance(value, dict) and any(made_by_code(each, depth + 1) for pair in value.items() for each in pair)


class Output(io.BytesIO):
    def write(self, more):
        if self.tell() + len(more) > OUTPUT_BYTES:
            raise OSError("too much output")
        return super().write(more)


class World:
    """Builtins, modules and streams for one run of the code."""

    def __init__(self, name, stdin=""):
        self.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        self.output = Output()
        self.stdout = io.TextIOWrapper(self.output, encoding="utf-8", write_through=True)
        self.modules = {"sys": self._sys()}
        left = ("open", "compile", "breakpoint", "help", "copyright", "credits", "license", "exit", "quit", "input", "print")
        own = {n: v for n, v in vars(builtins).items() if n not in left and not n.startswith("__")}
        own |= {n: by_name(vars(builtins)[n]) for n in ("getattr", "setattr", "delattr", "hasattr")}
        own |= {"__build_class__": builtins.__build_class__, "__import__": self._import, "__name__": "builtins"}
        own |= {"print": self._print, "input": self._input, "eval": self._eval, "exec": self._exec}
        own |= {"exit": self._exit, "quit": self._exit}
        self.names = {"__name__": name, "__builtins__": own}

    def _sys(self):
        fake = types.ModuleType("sys")
        for name in ("maxsize", "version", "version_info", "float_info", "int_info", "byteorder", "getsizeof", "intern"):
            setattr(fake, name, getattr(sys, name))
        fake.stdin, fake.stdout, fake.stderr = self.stdin, self.stdout, io.StringIO()
        fake.argv, fake.exit = ["solution.py"], self._exit
        fake.setrecursionlimit, fake.getrecursionlimit = (lambda limit: None), sys.getrecursionlimit
        fake.set_int_max_str_digits = lambda digits: None
        return fake

    def _import(self, name, names=None, locals=None, fromlist=(), level=0):
        if level or (name not in REAL and name != "sys"):
            raise ImportError(f"No module named {name!r}")
        for each in {name, name.split(".")[0]}:
            if each not in self.modules:
                self.modules[each] = copy_of(REAL[each])
        if "." in name:
            setattr(self.modules[name.split(".")[0]], name.split(".")[1], self.modules[name])
        return self.modules[name] if fromlist else self.modules[name.split(".")[0]]

    def _print(self, *values, sep=" ", end="\n", file=None, flush=False):
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        (self.stdout if file is None else file).write(text)

    def _input(self, prompt=""):
        self.stdout.write(str(prompt))
        line = self.stdin.readline()
        if not line:
            raise EOFError("EOF when reading a line")
        return line.removesuffix("\n")

    def _eval(self, text, names=None, locals=None):
        return eval(checked(text.strip(), "solution.py", "eval"), self._names(names), locals)

    def _exec(self, text, names=None, locals=None):
        exec(checked(text, "solution.py"), self._names(names), locals)

    def _names(self, names):
        names = self.names if names is None else names
        names["__builtins__"] = self.names["__builtins__"]
        return names

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
    """Comparisons, calls and asserts of a test go through the judge."""

    def through(self, name, *given):
        return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(given), keywords=[])

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            same = self.through(SAME, node.left, node.comparators[0])
            return same if isinstance(node.ops[0], ast.Eq) else ast.UnaryOp(op=ast.Not(), operand=same)
        node.left = self.through(VALUE, node.left)
        node.comparators = [self.through(VALUE, each) for each in node.comparators]
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        return self.through(VALUE, node)

    def visit_Name(self, node):
        return self.through(VALUE, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        return self.through(VALUE, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = self.through(TRUTH, node.test)
        return node


def compiled_tests(text):
    """Statements to run in order, each with whether it is a test. A text without an assert at its top is one test."""
    tree = ast.parse(text, "tests.py")
    top = [isinstance(each, ast.Assert) for each in tree.body]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    tree = ast.fix_missing_locations(Judged().visit(tree))
    groups = [([each], is_test) for each, is_test in zip(tree.body, top)] if any(top) else [(tree.body, True)]
    return [(compile(ast.Module(body, []), "tests.py", "exec"), is_test) for body, is_test in groups], names


def judge_names(names, solution):
    """What a test sees: the code's names, except where they would stand for builtins, and the judge's."""
    hidden = [n for n in names if n in solution and hasattr(builtins, n)]
    if hidden:
        raise Refused(f"the code defines {hidden[0]}")
    own_classes = any(isinstance(solution.get(n), type) and solution[n] not in KNOWN for n in names)

    def value(found):
        if not own_classes and made_by_code(found):
            raise AssertionError("a value of a type that the code made")
        return found

    def same(left, right):
        if made_by_code(left) != made_by_code(right):
            return False
        return bool(value(left) == value(right))

    seen = {n: v for n, v in solution.items() if not hasattr(builtins, n) and not n.startswith("__")}
    return {**seen, "__name__": "tests", "__builtins__": builtins, SAME: same, VALUE: value, TRUTH: lambda v: bool(value(v))}


def block_of(text):
    blocks = re.findall(r"```(?:python|py|Python|python3)[ \t]*\r?\n(.*?)(?:```|\Z)", text, re.S)
    defining = [b for b in blocks if re.search(r"^\s*(?:async\s+def|def|class)\s", b, re.M)]
    fenced = defining or blocks or re.findall(r"```[ \t]*\r?\n(.*?)```", text, re.S)
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
        statements, names = compiled_tests(text)
        try:
            seen = judge_names(names, world.names)
        except Refused:
            began = False
        for statement, is_test in statements:
            ended = began and tally.attempt(lambda: exec(statement, seen))
            if is_test:
                tally.note(ended)
            elif not ended:
                began = False


def run_program(code, test, tally):
    world = World("__main__", str(test.get("input") or ""))

    def work():
        try:
            exec(code, world.names)
        except SystemExit as end:
            if end.code:
                raise

    lines = lambda text: [line.rstrip() for line in text.rstrip().split("\n")]
    ended = bool(code) and tally.attempt(work)
    tally.note(ended and lines(world.output.getvalue().decode(errors="replace")) == lines(str(test.get("output") or "")))


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
        tally = Tally(seconds)
        try:
            code = checked(block_of(text_of(completion)), "solution.py")
        except (SyntaxError, ValueError, Refused, RecursionError, MemoryError):
            code = None
        run_asserts(code, [t for t in tests if isinstance(t, str)], tally)
        for test in tests:
            if isinstance(test, dict):
                run_program(code, test, tally)
        if tally.count == 0:
            return None
        return float(tally.passed == tally.count) if all else tally.passed / tally.count

    if not sys.monitoring.get_tool(TOOL):
        sys.monitoring.use_tool_id(TOOL, "code_tests")
    return [one(c, t) for c, t in zip(completions, column_of(columns, column, len(completions)))]
