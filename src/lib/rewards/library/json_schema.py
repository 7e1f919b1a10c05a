"""1 where the completion is JSON that satisfies the schema, else 0. A row without a schema: no reward.

schema: a JSON schema (draft 2020-12); a column `schema` of the rows has one for each row, as an object or as JSON text,
and wins. fenced: as in json_valid. otherwise: what JSON gets that does not satisfy the schema. `format` says nothing,
`$ref` leads only inside the schema; a keyword that is misspelt is ignored, as the standard says. A keyword with a value
that it cannot have, one that later drafts have dropped, and a pattern that Python does not know (`\\p{L}`) are errors.
"""
import functools
import json
import math
import re
from fractions import Fraction
from urllib.parse import unquote, urljoin

NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_type(value, name):
    if name == "number":
        return is_number(value)
    if name == "integer":
        return is_number(value) and (isinstance(value, int) or value.is_integer())
    return NAMES.get(type(value)) == name


def same(a, b):
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(a, bool) or isinstance(b, bool) or type(a) is not type(b):
        return a is b or (is_number(a) and is_number(b) and a == b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


SPACES = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
TOKEN = re.compile(r"\\k<(\w+)>|\(\?<(?![=!])|\\.|.", re.S)


def searched(pattern, text):
    return re.search(translated(pattern), text, re.A) is not None


@functools.cache
def translated(pattern):
    """The pattern as JavaScript means it, which the standard asks for, in Python's words: with the flag A."""
    inside, out = False, []
    for match in TOKEN.finditer(pattern):
        token = match[0]
        if match[1]:
            token = f"(?P={match[1]})"
        elif token == "\\s":
            token = SPACES if inside else f"[{SPACES}]"
        elif not inside:
            token = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "\\S": f"[^{SPACES}]", "(?<": "(?P<"}.get(token, token)
        inside = token == "[" or (inside and token != "]")
        out.append(token)
    return "".join(out)


# Where schemas are in a schema, and what the other keywords must be.
ONE = """additionalProperties propertyNames items contains not if then else unevaluatedProperties unevaluatedItems
contentSchema""".split()
LISTS = "allOf anyOf oneOf prefixItems".split()
NAMED = "$defs definitions properties patternProperties dependentSchemas".split()
COUNTS = """minLength maxLength minProperties maxProperties minItems maxItems minContains maxContains""".split()
NUMBERS = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split()
TEXTS = "$id $ref $anchor $dynamicRef $dynamicAnchor pattern".split()
DROPPED = "dependencies additionalItems $recursiveRef $recursiveAnchor divisibleBy disallow extends".split()
TYPES = "object array string number integer boolean null".split()


def is_texts(found):
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def is_named(found):
    return isinstance(found, dict) and all(map(is_texts, found.values()))


def is_types(found):
    return found in TYPES if isinstance(found, str) else is_texts(found) and found != [] and all(t in TYPES for t in found)


def is_count(found):
    return is_type(found, "integer") and found >= 0


CHECKS = {
    "$schema": lambda found: isinstance(found, str) and "json-schema.org/" in found,  # others have keywords of their own
    "type": is_types,
    "enum": lambda found: isinstance(found, list),
    "required": is_texts,
    "dependentRequired": is_named,
    "uniqueItems": lambda found: isinstance(found, bool),
    **dict.fromkeys(DROPPED, lambda found: False),
    **dict.fromkeys(COUNTS, is_count),
    **dict.fromkeys(NUMBERS, is_number),
    **dict.fromkeys(TEXTS, lambda found: isinstance(found, str)),
    **dict.fromkeys(LISTS, lambda found: isinstance(found, list) and found != []),
    **dict.fromkeys(NAMED, lambda found: isinstance(found, dict)),
    "multipleOf": lambda found: is_number(found) and found > 0,
}


class Seen:
    """What keywords beside `unevaluated*` have looked at."""

    def __init__(self):
        self.properties, self.items = set(), set()

    def add(self, other):
        self.properties |= other.properties
        self.items |= other.items


class Schema:
    def __init__(self, root):
        self.root = root
        self.base = {}  # of each schema, by id
        self.places = {"": root}  # by address
        self.dynamic = set()  # addresses of $dynamicAnchor
        self.scope = []  # the bases that were entered, the outermost first
        self._collect(root, "", 0)

    def _collect(self, node, base, depth):
        """Checks the schema, and all in it, and finds out their addresses."""
        if depth > 200:
            raise ValueError("the schema is nested too deeply")
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            raise ValueError(f"the schema has {json.dumps(node)[:80]} where a schema should be")
        for key, found in node.items():
            if key in CHECKS and not CHECKS[key](found):
                why = "is not in draft 2020-12" if key in DROPPED else f"cannot be {json.dumps(found)[:80]}"
                raise ValueError(f"the schema's {key!r} {why}")
        for pattern in [*node.get("patternProperties", ()), *([node["pattern"]] if "pattern" in node else [])]:
            re.compile(translated(pattern), re.A)
        base = urljoin(base, node["$id"].rstrip("#")) if "$id" in node else base
        self.base[id(node)] = base
        if "$id" in node:
            self.places[base] = node
        for key in ("$anchor", "$dynamicAnchor"):
            if key in node:
                self.places[f"{base}#{node[key]}"] = node
        if "$dynamicAnchor" in node:
            self.dynamic.add(f"{base}#{node['$dynamicAnchor']}")
        inside = [node[key] for key in ONE if key in node]
        inside += [each for key in LISTS for each in node.get(key, ())]
        inside += [each for key in NAMED for each in node.get(key, {}).values()]
        for each in inside:
            self._collect(each, base, depth + 1)

    def target(self, ref, base):
        address, _, fragment = ref.partition("#")
        whole, fragment = (urljoin(base, address) if address else base), unquote(fragment)
        if not fragment.startswith("/"):
            found = self.places.get(f"{whole}#{fragment}" if fragment else whole)
            if found is None and not fragment and whole == self.base.get(id(self.root)):
                found = self.root
            if found is None:
                raise ValueError(f"the schema refers to {ref!r}, which is not in it")
            return found
        return self._pointed(self.target(whole, ""), fragment, ref)

    def _pointed(self, node, pointer, ref):
        base = self.base.get(id(node), "")
        for step in pointer[1:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise ValueError(f"the schema refers to {ref!r}, which is not in it") from None
            base = self.base.get(id(node), base)
        if id(node) not in self.base:
            self._collect(node, base, 0)
        return node

    def dynamic_target(self, ref, base):
        found, fragment = self.target(ref, base), ref.partition("#")[2]
        if isinstance(found, dict) and fragment and found.get("$dynamicAnchor") == fragment:
            for each in self.scope:
                if f"{each}#{fragment}" in self.dynamic:
                    return self.places[f"{each}#{fragment}"]
        return found

    def holds(self, schema, value, seen=None, depth=0):
        """`depth` counts the schemas that were applied to the same value."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or depth > 100:
            raise ValueError("the schema is not an object, or refers to itself without end")
        own = Seen()
        self.scope.append(self.base[id(schema)])
        good = (
            self._plain(schema, value)
            and self._applied(schema, value, own, depth + 1)
            and (not isinstance(value, dict) or self._object(schema, value, own, depth + 1))
            and (not isinstance(value, list) or self._array(schema, value, own))
            and self._unevaluated(schema, value, own)
        )
        self.scope.pop()
        if good and seen is not None:
            seen.add(own)
        return good

    def _plain(self, schema, value):
        types = schema.get("type")
        if types is not None and not any(is_type(value, t) for t in (types if isinstance(types, list) else [types])):
            return False
        if "enum" in schema and not any(same(value, each) for each in schema["enum"]):
            return False
        if "const" in schema and not same(value, schema["const"]):
            return False
        if is_number(value):
            return self._number(schema, value)
        if isinstance(value, str):
            within = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf)
            return within and ("pattern" not in schema or searched(schema["pattern"], value))
        return True

    def _number(self, schema, value):
        if not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
            return False
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            return False
        if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
            return False
        step = schema.get("multipleOf")
        if step is None:
            return True
        return math.isfinite(value) and Fraction(repr(value)) % Fraction(repr(step)) == 0

    def _applied(self, schema, value, seen, depth):
        for key, find in (("$ref", self.target), ("$dynamicRef", self.dynamic_target)):
            if key in schema and not self.holds(find(schema[key], self.base[id(schema)]), value, seen, depth):
                return False
        if not all(self.holds(each, value, seen, depth) for each in schema.get("allOf", ())):
            return False
        if "anyOf" in schema and not any([self.holds(each, value, seen, depth) for each in schema["anyOf"]]):
            return False
        if "oneOf" in schema and sum(self.holds(each, value, seen, depth) for each in schema["oneOf"]) != 1:
            return False
        if "not" in schema and self.holds(schema["not"], value, None, depth):
            return False
        if "if" in schema:
            branch = "then" if self.holds(schema["if"], value, seen, depth) else "else"
            if branch in schema and not self.holds(schema[branch], value, seen, depth):
                return False
        return True

    def _object(self, schema, value, seen, depth):
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", math.inf):
            return False
        if any(name not in value for name in schema.get("required", ())):
            return False
        for name, needed in schema.get("dependentRequired", {}).items():
            if name in value and any(other not in value for other in needed):
                return False
        for name, extra in schema.get("dependentSchemas", {}).items():
            if name in value and not self.holds(extra, value, seen, depth):
                return False
        if "propertyNames" in schema and not all(self.holds(schema["propertyNames"], k) for k in value):
            return False
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, each in value.items():
            asked = [properties[name]] if name in properties else []
            asked += [extra for pattern, extra in patterns.items() if searched(pattern, name)]
            if not asked and "additionalProperties" in schema:
                asked = [schema["additionalProperties"]]
            if not all(self.holds(extra, each) for extra in asked):
                return False
            if asked:
                seen.properties.add(name)
        return True

    def _array(self, schema, value, seen):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            return False
        if schema.get("uniqueItems") and any(same(a, b) for i, a in enumerate(value) for b in value[:i]):
            return False
        first = schema.get("prefixItems", [])
        for index, each in enumerate(value):
            if index < len(first) or "items" in schema:
                if not self.holds(first[index] if index < len(first) else schema["items"], each):
                    return False
                seen.items.add(index)
        if "contains" in schema:
            found = [i for i, each in enumerate(value) if self.holds(schema["contains"], each)]
            if not schema.get("minContains", 1) <= len(found) <= schema.get("maxContains", math.inf):
                return False
            seen.items.update(found)
        return True

    def _unevaluated(self, schema, value, seen):
        if isinstance(value, dict) and "unevaluatedProperties" in schema:
            rest = [name for name in value if name not in seen.properties]
            if not all(self.holds(schema["unevaluatedProperties"], value[name]) for name in rest):
                return False
            seen.properties.update(rest)
        if isinstance(value, list) and "unevaluatedItems" in schema:
            rest = [i for i in range(len(value)) if i not in seen.items]
            if not all(self.holds(schema["unevaluatedItems"], value[i]) for i in rest):
                return False
            seen.items.update(rest)
        return True


def reward(completions, schema=None, fenced=True, otherwise=0.0, **columns):
    if schema is None:
        raise ValueError("there is no schema: give the parameter `schema`, or rows with a column `schema`")
    schemas = schema if isinstance(schema, list) else [schema] * len(completions)
    known = {}

    def one(completion, asked):
        if asked is None:
            return None
        if id(asked) not in known:
            known[id(asked)] = Schema(json.loads(asked) if isinstance(asked, str) else asked)
        checked = known[id(asked)]
        try:
            found = json_of(text_of(completion), fenced)
        except (ValueError, RecursionError):
            return 0.0
        return 1.0 if checked.holds(checked.root, found) else float(otherwise)

    return [one(c, s) for c, s in zip(completions, schemas)]
