/**
 * The command line of scripts/test: `[--all | --rest | --changed[=REF]] [--full] [--budget=TIME] [--list] [--jobs=N]
 * [--update-timings] [filter…]`.
 */
import { UsageError } from "../src/lib/errors.ts";

/** `quick`: the first tier. `rest`: the second tier without the first. `changed`: what a change can break, of both. */
export type Choice = "quick" | "all" | "rest" | "changed";

export type Options = {
  /** Parts of paths. Files of both tiers are taken by them. */
  filters: string[];
  choice: Choice;
  /** The commit that a change is compared with. */
  since: string;
  /** No further file starts after this time. Undefined: no limit. */
  budgetMs: number | undefined;
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

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

function durationMs(text: string): number {
  const [, count, unit = ""] = /^(\d+)([smh])$/.exec(text) ?? [];
  if (count === undefined) throw new UsageError(`--budget must be a time such as 90s, 40m or 1h, not "${text}"`);
  return Number(count) * (UNITS[unit] as number);
}

const FLAGS = "--all, --rest, --changed[=REF], --full, --budget=TIME, --list, --jobs=N, --update-timings";

function choiceOf(argv: readonly string[]): Choice {
  if (argv.some((each) => each === "--changed" || each.startsWith("--changed="))) return "changed";
  if (argv.includes("--rest")) return "rest";
  return argv.includes("--all") || argv.includes("--full") ? "all" : "quick";
}

/** `--budget 40m` is `--budget=40m`. */
function joined(argv: readonly string[]): string[] {
  const at = argv.indexOf("--budget");
  return at < 0 ? [...argv] : [...argv.slice(0, at), `--budget=${argv[at + 1] ?? ""}`, ...argv.slice(at + 2)];
}

export function readOptions(args: readonly string[], { cores, seed, draw }: Machine): Options {
  const argv = joined(args);
  const options: Options = {
    filters: argv.filter((each) => !each.startsWith("-")),
    choice: choiceOf(argv),
    since: "HEAD",
    budgetMs: undefined,
    list: argv.includes("--list"),
    full: argv.includes("--full"),
    jobs: jobsFor(cores),
    updateTimings: argv.includes("--update-timings"),
    seed: seed === undefined || seed === "" ? draw() : wholeNumber(seed, "VERK_TEST_SEED", 0),
  };
  for (const flag of argv.filter((each) => each.startsWith("-"))) {
    if (flag.startsWith("--jobs=")) options.jobs = wholeNumber(flag.slice("--jobs=".length), "--jobs", 1);
    else if (flag.startsWith("--budget=")) options.budgetMs = durationMs(flag.slice("--budget=".length));
    else if (flag.startsWith("--changed=")) options.since = flag.slice("--changed=".length);
    else if (!["--all", "--rest", "--changed", "--list", "--full", "--update-timings"].includes(flag))
      throw new UsageError(`Unknown flag ${flag}. Flags: ${FLAGS}`);
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
