# What may be believed of a value that the code made: the second part of code_tests.

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
