"""Prints what prepare.py needs: one line per repository (github:owner/name@commit) or Debian package (debian:name).

python3 fetch_list.py SHARED_DATA
"""
import sys

from prepare_sources import load_sources


def main():
    seen = set()
    for source in load_sources(sys.argv[1]):
        lines = [f"github:{source['repo']}@{source['commit']}"] if "repo" in source else [
            f"debian:{name} {source['commit']}" for name in source["packages"]]
        for line in lines:
            if line not in seen:
                print(line)
            seen.add(line)


if __name__ == "__main__":
    main()
