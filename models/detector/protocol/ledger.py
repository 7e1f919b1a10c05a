"""The ledger of data versions whose outer folds have been scored. A version is scored once.

An entry is on the disk before a figure is computed. Whoever wants other figures needs other data.
"""
import datetime
import fcntl
import json
import os

from protocol import files


class AlreadyScored(Exception):
    pass


def entries(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def claim(path, version, about):
    """Writes the entry of this data version. AlreadyScored: there is one."""
    with open(path, "a+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        text = f.read()
        for line in text.splitlines():
            entry = json.loads(line) if line.strip() else {}
            if entry.get("data_version") == version:
                raise AlreadyScored(
                    f"The outer folds of the data version {version[:12]} were scored on {entry['at']}. They are not shown "
                    f"again, since a choice made after a look flatters. Add or remove images, then run anew.")
        if text and not text.endswith("\n"):
            f.write("\n")  # a line that a crash cut short
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        f.write(json.dumps({"data_version": version, "at": now, **about}) + "\n")
        f.flush()
        os.fsync(f.fileno())


def published(out, path, version, about, figures, text_of):
    """Claims the data version, then computes the figures and writes them into OUT/report.json and OUT/report.md."""
    try:
        claim(path, version, about)
    except AlreadyScored as refused:
        raise SystemExit(str(refused))
    made = {"data_version": version, **figures()}
    files.write_json(os.path.join(out, "report.json"), made)
    text = text_of(made)
    with open(os.path.join(out, "report.md"), "w") as f:
        f.write(text)
    print(f"data version {version}\n\n{text}")
