"""Where every training image comes from, read from the data folder, and the bytes of one source.

The data folder holds images/SOURCES.md (repository or Debian packages, commit, licence), images/train-manifest.json
(which paths of a repository) and images/index.csv (family, content, fold). The paths of the art sources are below.
"""
import csv
import json
import os
import re
import subprocess

IMAGE = r"\.(png|jpe?g|webp)$"
GRIDS = {"sd-cheatsheet-sd15", "flux-cheatsheet"}  # four pictures in one file
LABELS = {"mj-shoes": ("data/Data.csv", "AI"), "shoes-real": ("data/Data.csv", "Real")}
CAPS = {"foda": 300}  # frames of one video
# Of these only files that index.csv knows: their others are also in another source, and that may be one kept aside for
# testing. The others of OTHERS_ASIDE, and near copies of them in any source, are therefore not used at all.
KNOWN_ONLY = {"gpt-image2-hiapi", "gpt4o-z23cc", "gpt4o-wowmarco", "gpt4o-lesonky"}
OTHERS_ASIDE = {"gpt-image2-hiapi", "gpt4o-z23cc"}
SKIPPED = {"urban100-sunhays-bsd": "SRF_[23]/"}  # the same pictures, cut a few pixels differently

# Paths inside a repository or a Debian package.
ART = {
    "anime-jonathonyan": r"^datasets/(recognition/train|detection/positive_test)/.*" + IMAGE,
    "appleseed-renders": r"^sandbox/tests/test scenes/.*/ref/.*" + IMAGE,
    "best-artworks": IMAGE,
    "godot-docs": r"/img/.*" + IMAGE,
    "renpy-vn": r"^(tutorial|the_question|the_question_old)/.*" + IMAGE,
    "threejs-screens": r"^examples/screenshots/.*" + IMAGE,
    "flare-game": r"/images/.*" + IMAGE,
    "hedgewars": r"/Data/(Forts|Themes|Maps|Graphics)/.*" + IMAGE,
    "openclipart": r"/openclipart/png/.*" + IMAGE,
    "supertux": r"/supertux2/images/(background|decal|creatures|tiles|worldmap|objects|credits|engine/menu)/.*" + IMAGE,
    "unknown-horizons": r"/content/(gui/images/background|gfx/base|gfx/atlas|gfx/terrain|.*mainsquare).*" + IMAGE,
    "wesnoth": r"/images/(portraits|story|maps)/(?!l10n).*" + IMAGE,
}


def load_sources(shared):
    """[{id, label, content, family, fold, licence, repo | packages, commit, paths, exclude}, …]"""
    images = os.path.join(shared, "images")
    with open(os.path.join(images, "train-manifest.json")) as f:
        manifest = {s["id"]: s for s in json.load(f)["sources"]}
    with open(os.path.join(images, "index.csv"), newline="") as f:
        crops = list(csv.DictReader(f))
    known = {r["source"]: r for r in crops}
    with open(os.path.join(images, "SOURCES.md")) as f:
        rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in f if re.match(r"\| [a-z0-9-]+ \|", line)]
    out = []
    for row in rows:
        sid, label, content, place, commit, licence = row[:6]
        if sid == "source":
            continue
        named = manifest.get(sid, {})
        one = {"id": sid, "label": label, "content": content, "family": known[sid]["family"], "fold": known[sid]["fold"],
               "licence": licence, "commit": commit, "paths": named.get("paths") or [ART[sid]],
               "exclude": "|".join(filter(None, [named.get("exclude"), SKIPPED.get(sid)])),
               "keys": {r["src_key"] for r in crops if r["source"] == sid}}
        kind, _, name = place.partition(":")
        one |= {"repo": name} if kind == "github" else {"packages": packages(name)}
        out.append(one)
    return out


def packages(text):
    """`wesnoth-1.16-data,-httt` → the full names: the short ones share what comes before the first one's last part."""
    first, *rest = text.split(",")
    return [first, *(first[: first.rindex("-")] + part for part in rest)]


def wanted(source, path):
    if source["exclude"] and re.search(source["exclude"], path):
        return False
    return re.search(IMAGE, path, re.I) is not None and any(re.search(p, path, re.I) for p in source["paths"])


def git_dir(mirrors, repo):
    top = os.path.join(mirrors, repo.replace("/", "+"), "repo")
    return os.path.join(top, ".git") if os.path.isdir(os.path.join(top, ".git")) else top


def git(folder, *args):
    return subprocess.run(["git", "--git-dir", folder, *args], check=True, capture_output=True).stdout


class Repository:
    """Files of one commit, without a work tree."""

    def __init__(self, source, mirrors):
        self.folder, self.source = git_dir(mirrors, source["repo"]), source
        entries = git(self.folder, "ls-tree", "-r", "-z", source["commit"]).decode("utf8", "surrogateescape").split("\0")
        self.blobs = {}
        for entry in filter(None, entries):
            meta, path = entry.split("\t", 1)
            if wanted(source, path):
                self.blobs.setdefault(meta.split()[2], path)
        if source["id"] in LABELS:
            table, name = LABELS[source["id"]]
            text = git(self.folder, "show", f"{source['commit']}:{table}").decode()
            mine = {r["Name"] for r in csv.DictReader(text.splitlines()) if r["label"] == name}
            self.blobs = {b: p for b, p in self.blobs.items() if os.path.basename(p) in mine}
        self.reader = subprocess.Popen(["git", "--git-dir", self.folder, "cat-file", "--batch"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def names(self):
        return sorted(self.blobs)

    def path(self, name):
        return self.blobs[name]

    def read(self, name):
        """None where the snapshot lacks the file."""
        self.reader.stdin.write(name.encode() + b"\n")
        self.reader.stdin.flush()
        head = self.reader.stdout.readline().split()
        if head[1] == b"missing":
            return None
        data = self.reader.stdout.read(int(head[2]))
        self.reader.stdout.read(1)
        return data

    def close(self):
        self.reader.stdin.close()
        self.reader.wait()


class Packages:
    """Files of unpacked Debian packages: <debs>/<package>/usr/…"""

    def __init__(self, source, debs):
        self.files = []
        for package in source["packages"]:
            for folder, _, files in os.walk(os.path.join(debs, package)):
                paths = [os.path.join(folder, f) for f in files]
                self.files += [p for p in paths if not os.path.islink(p) and wanted(source, p.removeprefix(debs))]

    def names(self):
        return sorted(self.files)

    def path(self, name):
        return name

    def read(self, name):
        with open(name, "rb") as f:
            return f.read()

    def close(self):
        pass


def opened(source, mirrors, debs):
    return Repository(source, mirrors) if "repo" in source else Packages(source, debs)
