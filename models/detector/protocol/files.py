"""Files that the steps of the protocol hand to one another. A JSON file is either complete or not there."""
import csv
import json
import os


def index_of(folder):
    """Rows of the packs' index."""
    with open(os.path.join(folder, "index.csv"), newline="") as f:
        return list(csv.DictReader(f))


def read_json(path):
    with open(path) as f:
        return json.load(f)


def write_json(path, value):
    with open(path + ".tmp", "w") as f:
        json.dump(value, f)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)
