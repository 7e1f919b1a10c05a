# Environments: a rollout acts on an instance of a class whose public methods are tools. The third part of the harness.

ENVIRONMENT_FORMS = (
    "`class Name:` with `def reset(self, **row)`, methods that the model may call, and `def get_reward(self)` returning one number"
)
OBSERVED_MAX = 60_000  # MOST_OBSERVED of the contract
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", tuple: "array", set: "array", dict: "object"}
RESERVED = ("reset", "get_reward")


def _is_environment(found):
    if not isinstance(found, type) or found.__module__ != "reward" or found.__name__.startswith("_"):
        return False
    return callable(getattr(found, "reset", None))


def _schema(hint):
    """The JSON schema of a type hint; {} allows everything."""
    if hint in KINDS:
        return {"type": KINDS[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        schemas = [_schema(each) for each in inner if each is not type(None)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in KINDS:
        items = [_schema(each) for each in inner[:1]] if KINDS[origin] == "array" else []
        return {"type": KINDS[origin], **({"items": items[0]} if items else {})}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    return {}


def _documented(method, names):
    """The description of a docstring, and that of each parameter below `Args:`."""
    head, parameters, section, name = [], {}, "head", None
    for line in (inspect.getdoc(method) or "").split("\n"):
        words = line.strip()
        if re.fullmatch(r"(Args|Arguments|Parameters):", words):
            section = "parameters"
        elif re.fullmatch(r"[A-Z]\w+:", words):
            section = "rest"
        elif section == "head":
            head.append(words)
        elif section == "parameters":
            match = re.match(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)", words)
            if match and match[1] in names:
                name = match[1]
                parameters[name] = match[2]
            elif name is not None and words:
                parameters[name] += f" {words}"
    return " ".join(" ".join(head).split()), parameters


def _plain(value):
    try:
        _encode(value)
        return True
    except BaseException:
        return False


class _Tool:
    def __init__(self, name, method):
        self.name = name
        try:
            signature = inspect.signature(method)
            hints = typing.get_type_hints(method)
        except BaseException as error:
            raise _Refused(f"The method `{name}` cannot be read ({_words(error, 200)}).")
        kinds = inspect.Parameter
        parameters = [p for p in list(signature.parameters.values())[1:] if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        self.description, documented = _documented(method, {p.name for p in parameters})
        self.properties, self.required = {}, []
        for parameter in parameters:
            schema = _schema(hints.get(parameter.name))
            if documented.get(parameter.name):
                schema["description"] = documented[parameter.name]
            if parameter.default is parameter.empty:
                self.required.append(parameter.name)
            elif parameter.default is not None and _plain(parameter.default):
                schema["default"] = parameter.default
            self.properties[parameter.name] = schema

    def described(self):
        parameters = {"type": "object", "properties": self.properties, "required": self.required}
        return {"name": self.name[:64], "description": self.description[:4000], "parameters": parameters}


class _Environment:
    """Also an entry: the reward of a completion is that of its rollout."""

    form = "sample"

    def __init__(self, cls):
        self.cls = self.function = cls
        self.name = cls.__name__
        methods = {}
        for base in reversed(cls.__mro__[:-1]):
            methods.update((name, getattr(cls, name)) for name in base.__dict__ if not name.startswith("_") and name not in RESERVED)
        self.tools = {name: _Tool(name, method) for name, method in methods.items() if callable(method)}
        if len(self.tools) > 64:
            raise _Refused(f"`{self.name}` has {len(self.tools)} public methods; at most 64 can be tools.")

    @property
    def has_reward(self):
        return callable(getattr(self.cls, "get_reward", None))

    def described(self):
        code = getattr(getattr(self.cls, "get_reward", None), "__code__", None)
        line = code.co_firstlineno if code is not None else 0
        return {"name": self.name[:200], "signature": f"{self.name}.get_reward()"[:1000], "form": "sample", "is_async": False, "line": line}

    def call(self, known, columns, params):
        if "environment" not in known:
            raise RuntimeError(f"{self.name} scores rollouts alone, and this completion comes from none")
        if known["environment"] is None:
            raise RuntimeError("the rollout was lost")
        return _awaited(known["environment"].get_reward()) if type(known["environment"]) is self.cls else None

    def begin(self, row):
        instance = self.cls()
        parameters = inspect.signature(instance.reset).parameters.values()
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        names = {p.name for p in parameters}
        observed = _awaited(instance.reset(**{name: value for name, value in row.items() if takes_all or name in names}))
        return instance, None if observed is None else _observed(observed)

    def act(self, instance, name, given):
        """The text that the model reads, and whether the method failed."""
        if name not in self.tools:
            return f"Error: there is no tool {name!r}. The tools are {', '.join(self.tools)}", True
        try:
            return _observed(_awaited(getattr(instance, name)(**given))), False
        except MemoryError:
            raise
        except Exception as error:
            return f"Error: {_words(error)}", True


def _awaited(value):
    return _drive(value) if hasattr(type(value), "__await__") else value


def _observed(value):
    text = value if isinstance(value, str) else _encode(value) if _plain(value) and value is not None else str(value)
    return text[:OBSERVED_MAX].encode("utf-8", "replace").decode()


def _environments_in(module):
    classes = [found for found in dict.fromkeys(v for v in module.__dict__.values() if isinstance(v, type)) if _is_environment(found)]
    last = [cls for cls in classes if not any(other is not cls and issubclass(other, cls) for other in classes)]
    if len(last) > 16:
        raise _Refused(f"There are {len(last)} environments; at most 16 are allowed.")
    return {cls.__name__: _Environment(cls) for cls in last}


class _Rollouts:
    """Instances of environments, by the number of their rollout."""

    def __init__(self, environments):
        self.environments = environments
        self.open = {}

    def of(self, number):
        held = self.open.get(number)
        return None if held is None else held[1]

    def act(self, request):
        """`_verk.step()` answers this text, so that a failure while it is encoded belongs to the act."""
        random.seed(request["seed"])
        try:
            text, failed = self._acted(request)
            return _encode({"ok": True, "acted": {"text": text, "failed": failed, "fault": None}})
        except BaseException as error:
            self.open.pop(request["rollout"], None)
            return _encode({"ok": True, "acted": {"text": None, "failed": True, "fault": _failure(error)}})

    def _acted(self, request):
        number, kind = request["rollout"], request["act"]
        if kind == "end":
            self.open.pop(number, None)
            return None, False
        if kind == "reset":
            environment = self._chosen(request["row"])
            instance, text = environment.begin(request["row"])
            self.open[number] = environment, instance
            return text, False
        if number not in self.open:
            raise RuntimeError("the rollout was lost")
        environment, instance = self.open[number]
        return environment.act(instance, request["name"], request["arguments"])

    def _chosen(self, row):
        name = row.get("environment")
        if name is None:
            return next(iter(self.environments.values()))
        if name not in self.environments:
            raise ValueError(f"the column `environment` names {_shown(name)}. The environments are {', '.join(self.environments)}")
        return self.environments[name]
