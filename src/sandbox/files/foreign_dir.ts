/**
 * Directories that code of users may change, or a worker that parses files of users: what a session or a custom job
 * sees as /workspace, and the folders of a trainer. Any name in them can become a link to a file of the server at any
 * moment. So their paths stay in this folder: the rest of the server holds a `ForeignDir` and calls the functions
 * beside it, which go by descriptor and follow no link. test/meta/foreign_files.test.ts checks that nothing goes around.
 */
import { openSync } from "node:fs";
import { join } from "node:path";
import { O, openAt, THE_NAME, within } from "./beneath_calls.ts";

/** Folders of the data directory in which only the server makes, moves and removes entries. */
type Top = "jobs" | "sessions";
type Place = { top: string; names: readonly string[] };

let placeOf: (dir: ForeignDir) => Place;

export class ForeignDir {
  readonly #place: Place;

  private constructor(place: Place) {
    this.#place = place;
  }

  static in(dataDir: string, top: Top): ForeignDir {
    return new ForeignDir({ top: join(dataDir, top), names: [] });
  }

  /** A directory inside this one; each name is one component. */
  below(...more: readonly string[]): ForeignDir {
    for (const name of more)
      if (name === "" || name === "." || name === ".." || name.includes("/") || name.includes("\0"))
        throw new RangeError(`not the name of a directory: ${JSON.stringify(name.slice(0, 80))}`);
    const { top, names } = this.#place;
    return new ForeignDir({ top, names: [...names, ...more] });
  }

  static {
    placeOf = (dir) => dir.#place;
  }
}

export const jobsDir = (dataDir: string) => ForeignDir.in(dataDir, "jobs");
/** `path` as rows have it: relative to the data directory, such as `jobs/job_1/checkpoints/step-000012`. */
export function jobDirAt(dataDir: string, path: string): ForeignDir {
  const [top, ...names] = path.split("/");
  if (top !== "jobs") throw new RangeError(`not a directory of a job: ${path.slice(0, 80)}`);
  return jobsDir(dataDir).below(...names);
}

export const sessionsDir = (dataDir: string) => ForeignDir.in(dataDir, "sessions");

/** Only for this folder and for the jail, which mounts it: see the meta test. */
export const pathOf = (dir: ForeignDir): string => join(topOf(dir), ...namesOf(dir));

/** For a message to a worker, which opens it in a process of its own. The server itself must not open it. */
export const pathForWorker = (dir: ForeignDir, ...names: readonly string[]): string => join(pathOf(dir), ...names);

export const topOf = (dir: ForeignDir): string => placeOf(dir).top;
export const namesOf = (dir: ForeignDir): readonly string[] => placeOf(dir).names;

const DIRECTORY = O.O_RDONLY | O.O_DIRECTORY | O.O_NOFOLLOW;
/** The data directory may lie behind a link that the operator made; nothing below may. */
export const openTop = (dir: ForeignDir): number => openSync(topOf(dir), DIRECTORY | O.O_CLOEXEC);

/** The directory itself, reached without a link. The caller closes the descriptor. */
export const openForeign = (dir: ForeignDir): number => openNames(dir, namesOf(dir));

/** The directory that holds `dir`, and the name of `dir` in it. The caller closes the descriptor. */
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
