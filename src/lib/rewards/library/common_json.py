import json
import re


def refuse(constant):
    raise ValueError(constant)


def json_of(text, fenced):
    """The parsed value. Raises ValueError."""
    blocks = re.findall(r"```[\w-]*[ \t]*\r?\n(.*?)```", text, re.S) if fenced else []
    text = blocks[0] if len(blocks) == 1 else text
    # The parser has no limit of its own that holds inside the sandbox: too deep a text would end the process.
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*+"?', "", text, flags=re.S)):
        depth += 1 if bracket in "[{" else -1
        if depth > 100:
            raise ValueError("nested too deeply")
    return json.loads(text, parse_constant=refuse)
