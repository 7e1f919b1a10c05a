def text_of(completion):
    """The text of a completion: its own, or that of the last assistant message of a chat."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list):
        said = [m for m in completion if isinstance(m, dict) and m.get("role", "assistant") == "assistant"]
        content = said[-1].get("content") if said else None
        if isinstance(content, str):
            return content
        if isinstance(content, list):  # parts
            return "".join(p.get("text", "") for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    return ""


def column_of(columns, name, count):
    """A column of the rows, by the name that a parameter gives."""
    if name not in columns:
        have = ", ".join(sorted(k for k in columns if isinstance(columns[k], list) and len(columns[k]) == count)) or "none"
        raise KeyError(f"the rows have no column {name!r} (they have: {have}); the parameter `column` names another")
    return columns[name]
