"""1 where the completion is JSON that satisfies the schema, else 0. A row without a schema: no reward.

schema: a JSON schema (draft 2020-12); a column `schema` of the rows has one for each row, as an object or as JSON text,
and wins. fenced: as in json_valid. otherwise: what JSON gets that does not satisfy the schema. `format` says nothing,
`$ref` leads only inside the schema; a keyword that is misspelt is ignored, as the standard says.
"""
import json
import math
import re
from urllib.parse import unquote

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


def searched(pattern, text):
    # The anchors of JavaScript, which the standard means: $ is the very end.
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), text) is not None


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
        self.anchors = {}
        self._collect(root, 0)

    def _collect(self, node, depth):
        if depth > 200:
            raise ValueError("the schema is nested too deeply")
        if isinstance(node, dict):
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self.anchors[node[key]] = node
            if isinstance(node.get("$id"), str):
                self.anchors[node["$id"]] = node
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._collect(child, depth + 1)

    def target(self, ref):
        name = unquote(ref[1:]) if ref.startswith("#") else ref
        if name == "":
            return self.root
        if not name.startswith("/"):
            if name in self.anchors:
                return self.anchors[name]
            raise ValueError(f"the schema refers to {ref!r}, which is not in it")
        node = self.root
        for step in name[1:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (KeyError, IndexError, ValueError, TypeError):
                raise ValueError(f"the schema refers to {ref!r}, which is not in it") from None
        return node

    def holds(self, schema, value, seen=None, depth=0):
        """`depth` counts the schemas that were applied to the same value."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or depth > 100:
            raise ValueError("the schema is not an object, or refers to itself without end")
        own = Seen()
        good = (
            self._plain(schema, value)
            and self._applied(schema, value, own, depth + 1)
            and (not isinstance(value, dict) or self._object(schema, value, own, depth + 1))
            and (not isinstance(value, list) or self._array(schema, value, own))
            and self._unevaluated(schema, value, own)
        )
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
        times = value / step
        return math.isfinite(times) and abs(times - round(times)) < 1e-9 * max(1, abs(times))

    def _applied(self, schema, value, seen, depth):
        for key in ("$ref", "$dynamicRef"):
            if key in schema and not self.holds(self.target(schema[key]), value, seen, depth):
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

    def one(completion, asked):
        if asked is None:
            return None
        checked = Schema(json.loads(asked) if isinstance(asked, str) else asked)
        try:
            found = json_of(text_of(completion), fenced)
        except (ValueError, RecursionError):
            return 0.0
        return 1.0 if checked.holds(checked.root, found) else float(otherwise)

    return [one(c, s) for c, s in zip(completions, schemas)]
