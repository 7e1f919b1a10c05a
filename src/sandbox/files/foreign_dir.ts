/**
 * Foreign directories can be changed by code of users, or by a worker that parses their files: /workspace of a session
 * or custom job, and the folders of a trainer. Any name in them can become a link to a file of the server at any
 * moment. So only this folder knows their paths. The rest of the server has a `ForeignDir` and calls the functions
 * here, which use descriptors and follow no link. test/meta/foreign_files.test.ts enforces it.
 */
import { openSync } from "node:fs";
import { join } from "node:path";
import { O, within } from "./beneath_calls.ts";
import { openAt, THE_NAME } from "./beneath_open.ts";

/** Folders of the data directory in which only the server creates, renames and removes entries. */
type Top = "jobs" | "sessions";
type Location = { top: string; names: readonly string[] };

let locationOf: (dir: ForeignDir) => Location;

export class ForeignDir {
  readonly #location: Location;

  private constructor(location: Location) {
    this.#location = location;
  }

  static in(dataDir: string, top: Top): ForeignDir {
    return new ForeignDir({ top: join(dataDir, top), names: [] });
  }

  /** A directory inside this one; each name is one component. */
  below(...more: readonly string[]): ForeignDir {
    for (const name of more)
      if (name === "" || name === "." || name === ".." || name.includes("/") || name.includes("\0"))
        throw new RangeError(`not the name of a directory: ${JSON.stringify(name.slice(0, 80))}`);
    const { top, names } = this.#location;
    return new ForeignDir({ top, names: [...names, ...more] });
  }

  static {
    locationOf = (dir) => dir.#location;
  }
}

export const jobsDir = (dataDir: string) => ForeignDir.in(dataDir, "jobs");
/** `path` is relative to the data directory, as in rows: `jobs/job_1/checkpoints/step-000012`. */
export function jobDirAt(dataDir: string, path: string): ForeignDir {
  const [top, ...names] = path.split("/");
  if (top !== "jobs") throw new RangeError(`not a directory of a job: ${path.slice(0, 80)}`);
  return jobsDir(dataDir).below(...names);
}

export const sessionsDir = (dataDir: string) => ForeignDir.in(dataDir, "sessions");

/** Only for this folder and for the jail, which mounts it. The meta test enforces it. */
export const pathOf = (dir: ForeignDir): string => join(topOf(dir), ...namesOf(dir));

/** For a message to a worker, which opens the path in its own process. The server must not open it. */
export const pathForWorker = (dir: ForeignDir, ...names: readonly string[]): string => join(pathOf(dir), ...names);

export const topOf = (dir: ForeignDir): string => locationOf(dir).top;
export const namesOf = (dir: ForeignDir): readonly string[] => locationOf(dir).names;

const DIRECTORY = O.O_RDONLY | O.O_DIRECTORY | O.O_NOFOLLOW;
/** The path of the data directory may contain a link that the operator made. Nothing below may. */
export const openTop = (dir: ForeignDir): number => openSync(topOf(dir), DIRECTORY | O.O_CLOEXEC);

/** Opens the directory without following a link. The caller closes the descriptor. */
export const openForeign = (dir: ForeignDir): number => openNames(dir, namesOf(dir));

/** Opens the parent of `dir`, and returns the name of `dir` in it. The caller closes the descriptor. */
export function openParent(dir: ForeignDir): { parent: number; name: string } {
  const names = namesOf(dir);
  const name = names.at(-1);
  if (name === undefined) throw new RangeError("the folder of the data directory has no parent here");
  return { parent: openNames(dir, names.slice(0, -1)), name };
}

function openNames(dir: ForeignDir, names: readonly string[]): number {
  const top = openTop(dir);
  return names.length === 0 ? top : within(top, () => openAt(top, names.join("/"), DIRECTORY, THE_NAME));
}
