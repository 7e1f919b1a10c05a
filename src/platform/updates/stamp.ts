/** The stamp of an executable: one line of text inside it, so that a build for another architecture can be named too. */
import { closeSync, openSync, readSync } from "node:fs";
import { UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";

export type Stamp = {
  version: string;
  database_version: number;
  /** The platform that the executable runs on, as the build names it. */
  target: string;
  commit: string;
  built_at: string;
};

const MARK = "verk-stamp|";
const STAMP = /^verk-stamp\|(\d+\.\d+\.\d+[\w.-]*)\|(\d{1,6})\|([a-z0-9-]{1,40})\|(\w{1,64})\|([0-9TZ.:-]{20,30})\|/;
const LONGEST = 300;

export const stampText = ({ version, database_version, target, commit, built_at }: Stamp) =>
  `${MARK}${version}|${database_version}|${target}|${commit}|${built_at}|`;

export function parseStamp(text: string): Stamp | undefined {
  const [, version, database, target, commit, built_at] = STAMP.exec(text) ?? [];
  if (version === undefined || !target || !commit || !built_at) return undefined;
  return { version, database_version: Number(database), target, commit, built_at };
}

export function readStamp(path: string): Stamp {
  const fd = openSync(path, "r");
  try {
    const window = Buffer.alloc(4 * MIB + LONGEST);
    for (let at = 0; ; at += 4 * MIB) {
      const length = readSync(fd, window, 0, window.length, at);
      if (length === 0) break;
      const stamp = stampIn(window.subarray(0, length));
      if (stamp) return stamp;
    }
  } finally {
    closeSync(fd);
  }
  throw new UsageError(`${path} is not an executable of Verk, or an older one that has no stamp`);
}

/** The code that searches holds the mark too, so a mark alone is not a stamp. */
function stampIn(bytes: Buffer): Stamp | undefined {
  for (let at = bytes.indexOf(MARK); at !== -1; at = bytes.indexOf(MARK, at + 1)) {
    const stamp = parseStamp(bytes.toString("latin1", at, at + LONGEST));
    if (stamp) return stamp;
  }
  return undefined;
}
