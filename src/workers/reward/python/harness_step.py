# One step after the other: the last part of the harness.

# Kept, so that code which replaces them for itself does not replace them here.
_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.loads
_open, _read_some, _write_some, _close = os.open, os.read, os.write, os.close
_now = time.monotonic

MAP_SECONDS = 0.05  # MAP_MS of the contract: the host has a deadline for every row
MAP_TEXT = 1 << 18


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
        self.is_resolver = False
        self.module = None
        self.entry = None
        self.request = None
        self.text = None
        self.held = None  # the result of a row that did not fit into the last answer
        self.rollouts = _Rollouts({})

    def load(self, request):
        source = request["source"]
        self.entries, self.params, self.rollouts = {}, request["params"], _Rollouts({})
        self.is_resolver = request.get("kind") == "resolver"
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
        environments = [
            {"name": name[:200], "tools": [tool.described() for tool in environment.tools.values()]}
            for name, environment in self.rollouts.environments.items()
        ]
        entrypoints = [entry.described() for entry in self.entries.values()]
        return {"ok": True, "entrypoints": entrypoints, "environments": environments}

    def _entries(self, source):
        self.module = None
        code = compile(source, FILE, "exec", dont_inherit=True)
        linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
        module = self.module = types.ModuleType("reward")
        module.__file__ = FILE
        sys.modules["reward"] = module  # dataclasses and typing look their module up
        exec(code, module.__dict__)
        if self.is_resolver:
            return self._resolver(module, source)
        found = {}
        for name, function in list(module.__dict__.items()):
            if isinstance(name, str) and _is_reward(name, function) and all(e.function is not function for e in found.values()):
                found[name] = _Entry(name, function, source)
        environments = _environments_in(module)
        found.update((name, each) for name, each in environments.items() if each.has_reward)
        if environments and not found:
            raise _Refused(f"`{next(iter(environments))}` has no `get_reward`. Write {ENVIRONMENT_FORMS}.", self._nearest(source))
        if not found:
            raise _Refused(f"There is no function named `reward`, `*_reward` or `reward_*`. Write {FORMS}.", self._nearest(source))
        self.rollouts = _Rollouts(environments)
        if len(found) > 64:
            raise _Refused(f"There are {len(found)} reward functions; at most 64 are allowed.")
        return found

    def _resolver(self, module, source):
        function = module.__dict__.get("resolve")
        if not callable(function):
            raise _Refused(f"There is no function named `resolve`. Write {RESOLVER_FORMS}.", self._nearest(source))
        return {"resolve": _Entry("resolve", function, source, RESOLVER_FORMS)}

    def map(self, start, count):
        """Some rows from `start` on, as a text: encoding belongs to the row whose result it is."""
        texts = [] if self.held is None else [self.held]
        self.held = None
        size, until = sum(map(len, texts)), _now() + MAP_SECONDS
        for row in self.request["rows"][start + len(texts) : start + count]:
            text = self._mapped(row)
            if texts and size + len(text) > MAP_TEXT:
                self.held = text
                break
            texts.append(text)
            size += len(text)
            if _now() > until:
                break
        return '{"ok": true, "results": [' + ", ".join(texts) + "]}"

    def _mapped(self, row):
        try:
            return _encode({"rows": _rows(self.entry.call({"row": row}, dict(row), self.params)), "fault": None})
        except BaseException as error:
            return _encode({"rows": None, "fault": _failure(error)})

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
        self.held = None
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
        if request.get("rollouts"):
            known["environments"] = [self.rollouts.of(number) for number in request["rollouts"]]
        return self.entry.call(known, _Columns(request["rows"]), self.params)

    def one(self, index):
        if self.request is None:
            self.request = _decode(self.text)
        if self.entry.form == "sample":
            return {"ok": True, "value": self._sample(index, TEXT_MAX)}
        request = self.request
        alone = {key: [request[key][index]] for key in ("prompts", "completions", "rows", "rollouts") if key in request}
        try:
            return {"ok": True, "value": _listed(self._together(alone), 1)[0]}
        except BaseException as error:
            return {"ok": False, "error": _failure(error)}

    def _sample(self, index, most):
        request = self.request
        row = request["rows"][index]
        known = {"prompt": request["prompts"][index], "completion": request["completions"][index], "row": row}
        if request.get("rollouts"):
            known["environment"] = self.rollouts.of(request["rollouts"][index])
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
        if op == "map":
            return self.map(request["from"], request["count"])
        if op == "act":
            return self.rollouts.act(request)
        return self.batch() if op == "batch" else self.one(request["index"])

    def step(self):
        try:
            reply = self.answer(_read("/tmp/in.json"))
            reply = reply if type(reply) is str else _encode(reply)
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
