# The run itself: the last part of code_tests.

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
