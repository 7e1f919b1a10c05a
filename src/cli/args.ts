import { parseArgs } from "node:util";
import { UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import { parseDuration } from "../lib/time.ts";

/** The documented exit codes: scripts decide by them, so a number never changes its meaning. */
export const EXIT = { ok: 0, failed: 1, usage: 2, held: 3, schema: 4, check: 5 } as const;

export type Flag = {
  type: "string" | "boolean";
  doc: string;
  /** What stands for the value in the help: `--data DIR`. */
  value?: string;
  /** One letter: `-m TEXT`. */
  short?: string;
  multiple?: true;
};
export type Flags = Readonly<Record<string, Flag>>;

type ValueOf<F extends Flag> = F["type"] extends "boolean"
  ? boolean
  : F extends { multiple: true }
    ? string[]
    : string | undefined;
export type Given<F extends Flags> = { [K in keyof F]: ValueOf<F[K]> };

export type Command<F extends Flags = Flags> = {
  summary: string;
  /** Names of the positional arguments; the last may end with `?` (it may be left out) or with `…` (one or more). */
  takes?: readonly string[];
  flags: F;
  examples: readonly string[];
  /** What an exit code means here, where it says more than the common table. */
  exits?: Readonly<Record<number, string>>;
  run: (flags: Given<F>, ...positionals: string[]) => Promise<number> | number;
};
export type Group = {
  summary: string;
  subcommands: Readonly<Record<string, Command>>;
  /** Runs where the first word is none of them: `verk detect FILE`. */
  otherwise?: Command;
};

/** Types the flags that `run` receives by the flags declared beside it. */
export const command = <const F extends Flags>(spec: Command<F>): Command => spec as unknown as Command; // the parser keeps the promise

export const isGroup = (entry: Command | Group): entry is Group => "subcommands" in entry;

/** Flags that many commands share. */
export const JSON_FLAG = { type: "boolean", doc: "Print JSON instead of text" } as const;
export const DATA_FLAG = {
  type: "string",
  value: "DIR",
  doc: "Data directory (default: data_dir of the config)",
} as const;
export const CONFIG_FLAG = {
  type: "string",
  value: "FILE",
  doc: "Configuration file (default: /etc/verk/config.toml where it exists)",
} as const;

/** For commands that talk to a running server. The key is never a flag: other users of the machine can read those. */
export const SERVER_FLAGS = {
  url: {
    type: "string",
    value: "URL",
    doc: "The server (default: VERK_URL, else the one running on the data directory)",
  },
  data: DATA_FLAG,
  config: CONFIG_FLAG,
} as const;

/** Refuses what was not declared. `name` is the command as typed, for the message. */
export function parse(name: string, spec: Command, argv: readonly string[]) {
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(spec.flags).map(([flag, { type, short }]) => [flag, short ? { type, short } : { type }]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values: Record<string, string | boolean | string[] | undefined> = {};
  for (const [flag, { type, multiple }] of Object.entries(spec.flags))
    values[flag] = type === "boolean" ? false : multiple ? [] : undefined;
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const flag = spec.flags[token.name];
    if (!flag) throw unknownFlag(name, token.rawName, spec);
    const value = readValue(name, token, flag);
    if (flag.multiple) (values[token.name] as string[]).push(String(value));
    else values[token.name] = value;
  }
  checkPositionals(name, spec.takes ?? [], positionals);
  return { values, positionals };
}

type OptionToken = { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined };

function readValue(name: string, { rawName, value, inlineValue }: OptionToken, flag: Flag): string | boolean {
  if (flag.type === "boolean") {
    if (value !== undefined) throw new UsageError(`${name}: ${rawName} takes no value`);
    return true;
  }
  // `--data --json` and `--data "$UNSET"` forgot it; a lone dash is standard input or output.
  const missing = !value || (value.startsWith("-") && value !== "-" && !inlineValue);
  if (missing) throw new UsageError(`${name}: ${rawName} needs a value: ${rawName} ${flag.value ?? "VALUE"}`);
  return value;
}

function unknownFlag(name: string, rawName: string, spec: Command): UsageError {
  const close = nearest(rawName.replace(/^-+/, ""), Object.keys(spec.flags));
  const hint = close ? ` Did you mean --${close}?` : "";
  return new UsageError(`${name}: unknown flag ${rawName}.${hint} \`verk help ${name}\` lists them all.`);
}

function checkPositionals(name: string, takes: readonly string[], given: readonly string[]) {
  const missing = takes[given.length];
  if (missing !== undefined && !missing.endsWith("?"))
    throw new UsageError(`${name}: ${missing} is missing. See \`verk help ${name}\`.`);
  if (takes.at(-1)?.endsWith("…")) return;
  const extra = given[takes.length];
  if (extra !== undefined)
    throw new UsageError(`${name}: unexpected argument ${JSON.stringify(extra)}. See \`verk help ${name}\`.`);
}

/** For flags that are whole numbers. */
export function wholeOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`--${flag}: expected a whole number, not ${JSON.stringify(text)}`);
  return Number(text);
}

/** A moment as people write it: `90m`, `12h`, `30d` from now, or an ISO 8601 date. */
export function momentOf(flag: string, text: string, nowMs: number): string {
  const span = parseDuration(text);
  const at = new Date(span === undefined ? (/^\d{4}-\d\d-\d\d/.test(text) ? text : Number.NaN) : nowMs + span);
  if (Number.isNaN(at.getTime()))
    throw new UsageError(`--${flag}: expected 90m, 12h, 30d or a date such as 2027-01-31, not ${JSON.stringify(text)}`);
  return at.toISOString();
}
