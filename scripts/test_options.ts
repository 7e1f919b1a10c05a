/** The command line of scripts/test: `[--list] [--full] [--jobs=N] [--update-timings] [filter…]`. */
import { UsageError } from "../src/lib/errors.ts";

export type Options = {
  filters: string[];
  list: boolean;
  full: boolean;
  jobs: number;
  updateTimings: boolean;
  seed: number;
};
type Machine = { cores: number; seed: string | undefined; draw: () => number };

/** Most slow tests wait for children and disks, so one more process than cores keeps the cores busy. */
const jobsFor = (cores: number) => Math.min(8, Math.max(2, cores) + 1);

function wholeNumber(text: string, what: string, least: number): number {
  const value = Number(text);
  if (text === "" || !Number.isSafeInteger(value) || value < least)
    throw new UsageError(`${what} must be a whole number from ${least}, not "${text}"`);
  return value;
}

export function readOptions(argv: readonly string[], { cores, seed, draw }: Machine): Options {
  const options: Options = {
    filters: argv.filter((each) => !each.startsWith("-")),
    list: argv.includes("--list"),
    full: argv.includes("--full"),
    jobs: jobsFor(cores),
    updateTimings: argv.includes("--update-timings"),
    seed: seed === undefined || seed === "" ? draw() : wholeNumber(seed, "VERK_TEST_SEED", 0),
  };
  for (const flag of argv.filter((each) => each.startsWith("-"))) {
    if (flag.startsWith("--jobs=")) options.jobs = wholeNumber(flag.slice("--jobs=".length), "--jobs", 1);
    else if (!["--list", "--full", "--update-timings"].includes(flag))
      throw new UsageError(`Unknown flag ${flag}. Flags: --list, --full, --jobs=N, --update-timings`);
  }
  return options;
}

export const TIMINGS = "scripts/timings.json";

/**
 * The flags of the one `bun test` over all files: several processes, each with one module registry, slowest files
 * first.
 */
export const parallelFlags = ({ jobs, updateTimings }: Pick<Options, "jobs" | "updateTimings">): string[] => [
  `--parallel=${jobs}`,
  "--no-isolate",
  `--timings=${TIMINGS}`,
  ...(updateTimings ? ["--update-timings"] : []),
];
