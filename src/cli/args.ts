import { parseArgs } from "node:util";
import { UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import { parseDuration } from "../lib/time.ts";

/** The documented exit codes. Scripts depend on them, so a number never changes its meaning. */
export const EXIT = { ok: 0, failed: 1, usage: 2, held: 3, schema: 4, check: 5 } as const;

export type Flag = {
  type: "string" | "boolean";
  doc: string;
  /** Name of the value in the help text: `--data DIR`. */
  value?: string;
  /** One-letter form: `-m TEXT`. */
  short?: string;
  multiple?: true;
  /** An empty text is a value. Otherwise it is taken for a variable of the shell that is not set. */
  mayBeEmpty?: true;
  /** Every value that the flag takes, for completion. */
  choices?: readonly string[];
};
export type Flags = Readonly<Record<string, Flag>>;

type ValueOf<F extends Flag> = F["type"] extends "boolean"
  ? boolean
  : F extends { multiple: true }
    ? string[]
    : string | undefined;
export type FlagValues<F extends Flags> = { [K in keyof F]: ValueOf<F[K]> };

export type Command<F extends Flags = Flags> = {
  summary: string;
  /** Names of the positional arguments. The last name may end with `?` (optional) or with `…` (one or more). */
  takes?: readonly string[];
  flags: F;
  examples: readonly string[];
  /**
   * Fields of the request and the flags that set them: `checkpoint/save_steps` → `--save-steps`. Errors of the API then
   * name the flag. A flag with the name of its field needs no entry.
   */
  fields?: Readonly<Record<string, string>>;
  /** Meanings of exit codes that differ from the common table. */
  exits?: Readonly<Record<number, string>>;
  run: (flags: FlagValues<F>, ...positionals: string[]) => Promise<number> | number;
};
export type Group = {
  summary: string;
  subcommands: Readonly<Record<string, Command>>;
  /** Runs when the first word is not a subcommand: `verk detect FILE`. */
  otherwise?: Command;
};

/** Gives `run` typed flags, derived from the flags that the command declares. */
// `parse()` gives every flag this type.
export const command = <const F extends Flags>(spec: Command<F>): Command => spec as unknown as Command;

export const isGroup = (entry: Command | Group): entry is Group => "subcommands" in entry;

/** Flags that many commands share. */
export const JSON_FLAG = { type: "boolean", doc: "Print JSON instead of text" } as const;
export const FULL_FLAG = { type: "boolean", doc: "Show whole ids at a terminal" } as const;
export const DATA_FLAG = {
  type: "string",
  value: "DIR",
  doc: "Data directory (default: data_dir of the configuration)",
} as const;
export const CONFIG_FLAG = {
  type: "string",
  value: "FILE",
  doc: "Configuration file (default: /etc/verk/config.toml if it exists)",
} as const;

/**
 * Flags of commands that talk to a running server. The API key is never a flag: other users can read process arguments.
 */
export const SERVER_FLAGS = {
  url: {
    type: "string",
    value: "URL",
    doc: "Address of the server (default: VERK_URL, or the server that runs on the data directory)",
  },
  data: DATA_FLAG,
  config: CONFIG_FLAG,
  verbose: { type: "boolean", doc: "Print the code and the request id of an error of the server" },
} as const;

/** Rejects flags and arguments that the command does not declare. `name` is the command as typed, for the message. */
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
  // The value is missing in `--data --json` and in `--data "$UNSET"`. A lone dash is standard input or output.
  const isEmpty = value === undefined || (value === "" && !flag.mayBeEmpty);
  const missing = isEmpty || (value.startsWith("-") && value !== "-" && !inlineValue);
  if (missing) throw new UsageError(`${name}: ${rawName} needs a value: ${rawName} ${flag.value ?? "VALUE"}`);
  return value;
}

function unknownFlag(name: string, rawName: string, spec: Command): UsageError {
  const word = rawName.replace(/^-+/, "");
  const flags = Object.keys(spec.flags);
  const begun = word.length > 1 ? flags.filter((flag) => flag.startsWith(word)) : [];
  const close = begun.length === 1 ? begun[0] : nearest(word, flags);
  const hint = close ? ` Did you mean --${close}?` : "";
  return new UsageError(`${name}: unknown flag ${rawName}.${hint} \`verk help ${name}\` lists all flags.`);
}

function checkPositionals(name: string, takes: readonly string[], words: readonly string[]) {
  const missing = takes[words.length];
  if (missing !== undefined && !missing.endsWith("?"))
    throw new UsageError(`${name}: ${missing} is missing. See \`verk help ${name}\`.`);
  if (takes.at(-1)?.endsWith("…")) return;
  const extra = words[takes.length];
  if (extra !== undefined)
    throw new UsageError(`${name}: unexpected argument ${JSON.stringify(extra)}. See \`verk help ${name}\`.`);
}

/** Reads a flag whose value is a whole number. */
export function wholeOf(flag: string, text: string): number;
export function wholeOf(flag: string, text: string | undefined): number | undefined;
export function wholeOf(flag: string, text: string | undefined) {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`--${flag}: expected a whole number, not ${JSON.stringify(text)}`);
  return Number(text);
}

/** Reads a point in time: `90m`, `12h` or `30d` from now, or an ISO 8601 date. */
export function momentOf(flag: string, text: string, nowMs: number): string {
  const span = parseDuration(text);
  const at = new Date(span === undefined ? (/^\d{4}-\d\d-\d\d/.test(text) ? text : Number.NaN) : nowMs + span);
  if (Number.isNaN(at.getTime()))
    throw new UsageError(
      `--${flag}: expected a duration such as 90m, 12h or 30d, or a date such as 2027-01-31, not ${JSON.stringify(text)}`,
    );
  return at.toISOString();
}
