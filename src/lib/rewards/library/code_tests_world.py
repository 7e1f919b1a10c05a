# What the code sees while it runs: the third part of code_tests.

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
