# What functions take and give, and what went wrong in them: the second part of the harness.

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
    def __init__(self, name, function, source, forms=FORMS):
        self.name = name
        self.forms = forms
        self.function = function
        self.place = self._find(source)
        try:
            signature = inspect.signature(function, annotation_format=annotationlib.Format.STRING)
        except (TypeError, ValueError) as error:
            raise _Refused(f"`{name}` cannot be called here ({_words(error, 200)}). Write {forms}.", self.place)
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
        if self.forms is RESOLVER_FORMS:
            if "row" in names:
                return "sample"
            raise _Refused(f"`{self.text}` does not take `row`. Write {self.forms}.", self.place)
        if "completions" in names or "environments" in names:
            return "batch"
        one = names & {"completion", "prompt", "row", "environment"}
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


def _rows(found):
    """The rows that a resolver made of one row."""
    if found is None:
        return []
    if isinstance(found, dict):
        return [found]
    if isinstance(found, (str, bytes)) or not hasattr(type(found), "__iter__"):
        raise TypeError(f"the function returned {_shown(found)} and not a row, a list of rows or None")
    rows = list(itertools.islice(iter(found), 10_001))
    for row in rows:
        if not isinstance(row, dict):
            raise TypeError(f"the function returned a list with {_shown(row)} and not only rows")
    return rows
