/** Settings as an operator reads and writes them. Pure. */
import type { Setting } from "../../../resources/server/settings/schema.ts";
import { bytes, duration } from "../../data/format.ts";
import type { Tone } from "../../kit/pill.tsx";

export type Value = Setting["value"];
type SetBy = Setting["set_by"];

export const SOURCES: Readonly<Record<SetBy, readonly [shown: string, tone: Tone]>> = {
  default: ["Default", "idle"],
  dashboard: ["Dashboard", "good"],
  file: ["File", "busy"],
  environment: ["Environment", "busy"],
  command_line: ["Command line", "busy"],
};

export const sectionOf = ({ name }: Pick<Setting, "name">): string =>
  name.includes(".") ? (name.split(".")[0] ?? "") : "general";

export const shown = (value: Value): string => {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  return value === "" ? "not set" : String(value);
};

const SIZES: readonly (readonly [ending: RegExp, inWords: (value: number) => string])[] = [
  [/_bytes$/, bytes],
  [/_mib$/, (value) => bytes(value * 1024 * 1024)],
  [/_ms$/, (value) => duration(value / 1000)],
  [/_seconds$/, duration],
  [/_minutes$/, (value) => duration(value * 60)],
  [/_days$/, (value) => duration(value * 86_400)],
];

/** 67108864 of `max_append_bytes` → "64 MiB". Undefined where the figure says it already. */
export function inWords(name: string, value: Value): string | undefined {
  if (typeof value !== "number" || value <= 0) return undefined;
  const text = SIZES.find(([ending]) => ending.test(name))?.[1](value);
  return text === undefined || text.startsWith(`${value} `) ? undefined : text;
}

/** The value as TOML. JSON's texts, figures and lists of texts are TOML too. */
const toml = (value: Value): string => JSON.stringify(value);

/** The lines for the file: `[http]` and `listen = "…"`. */
export function fileLines(name: string, value: Value): string {
  const [section, key] = name.includes(".") ? name.split(".") : [undefined, name];
  return `${section === undefined ? "" : `[${section}]\n`}${key} = ${toml(value)}`;
}

/** The line for the environment. */
export function variableLine(variable: string, value: Value): string {
  const text = Array.isArray(value) ? value.join(",") : String(value);
  return `${variable}=${/^[\w./:@%+,-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`}`;
}

/** True if the page changes it: nothing else sets it, and no restart is needed. */
export const isChangeable = ({ needs_restart: needsRestart, set_by: by }: Setting): boolean =>
  !needsRestart && (by === "default" || by === "dashboard");

export const contains = ({ name, meaning, source, value }: Setting, text: string): boolean => {
  const all = `${name} ${meaning} ${source} ${shown(value)}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
};

/** Lower values of these remove what is kept. */
export const isRetention = (name: string) => /retention_days$|history_days$/.test(name);
