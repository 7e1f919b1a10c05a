import { writeSync } from "node:fs";
import { redactText, redactValue } from "../lib/text/redact.ts";

/**
 * One line per happening, on standard error: JSON for machines, text for a terminal. Every string passes the
 * redaction; a log call never throws, whatever it is given.
 */
export type Level = "debug" | "info" | "warn" | "error";
export type Fields = Record<string, unknown>;
export type Log = Record<Level, (msg: string, fields?: Fields) => void> & {
  /** The same log with fields on every line: `log.child({ request_id })`. */
  child: (fields: Fields) => Log;
  readonly level: Level;
};
export type LogOptions = {
  level?: Level | "auto";
  format?: LogFormat;
  write?: (line: string) => void;
  now?: () => number;
};

export type LogFormat = "auto" | "json" | "text";

/** `auto`: text for a person at a terminal, JSON for everything that collects logs. */
export const isJsonLog = (format: LogFormat): boolean =>
  format === "json" || (format === "auto" && !process.stderr.isTTY);

/** `auto`: a person at a terminal wants problems alone; `verk serve` prints starts and stops itself. */
const levelFor = (level: Level | "auto", format: LogFormat): Level =>
  level !== "auto" ? level : format !== "json" && process.stderr.isTTY ? "warn" : "info";

const ORDER: Record<Level, number> = { debug: 10, info: 20, warn: 30, error: 40 };

export function createLog({
  level: least = "info",
  format = "json",
  write = toStderr,
  now = Date.now,
}: LogOptions = {}): Log {
  const render = isJsonLog(format) ? renderJson : renderText;
  const level = levelFor(least, format);
  const make = (bound: Fields): Log => {
    const at = (each: Level) => (msg: string, fields?: Fields) => {
      if (ORDER[each] < ORDER[level]) return;
      try {
        const shown = fields === undefined ? bound : { ...bound, ...(redactValue(fields) as Fields) };
        write(`${render(new Date(now()).toISOString(), each, redactText(String(msg)), shown)}\n`);
      } catch (error) {
        complain(write, each, error);
      }
    };
    return {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
      child: (fields) => make({ ...bound, ...safeFields(fields) }),
      level,
    };
  };
  return make({});
}

/** For tests and for commands whose output is their own. */
export const silentLog: Log = createLog({ level: "error", write: () => {} });

function safeFields(fields: Fields): Fields {
  const shown = redactValue(fields);
  return typeof shown === "object" && shown !== null ? (shown as Fields) : {};
}

const OWN = new Set(["time", "level", "msg"]);

function renderJson(time: string, level: Level, msg: string, fields: Fields): string {
  const line: Fields = { time, level, msg };
  for (const key in fields) line[OWN.has(key) ? `_${key}` : key] = fields[key];
  return JSON.stringify(line);
}

function renderText(time: string, level: Level, msg: string, fields: Fields): string {
  const parts = [`${time.slice(11, 23)} ${level.toUpperCase().padEnd(5)} ${printable(msg)}`];
  const stacks: string[] = [];
  for (const key in fields) {
    const value = fields[key];
    if (value === undefined) continue;
    const stack = (value as { stack?: unknown } | null)?.stack;
    if (typeof stack === "string") {
      stacks.push(...stack.split("\n").map((line) => `    ${printable(line)}`));
      parts.push(`${key}=${quoted((value as { message?: unknown }).message)}`);
    } else parts.push(`${key}=${quoted(value)}`);
  }
  return [parts.join(" "), ...stacks].join("\n");
}

const quoted = (value: unknown) =>
  typeof value === "string" && /^[\w./:@-]+$/.test(value) ? value : printable(JSON.stringify(value) ?? "undefined");

/** A terminal must not obey what a log line quotes. */
const printable = (text: string) =>
  text.replaceAll(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);

function complain(write: (line: string) => void, level: Level, error: unknown) {
  try {
    write(`${JSON.stringify({ level, msg: "a log line could not be written", error: redactText(String(error)) })}\n`);
  } catch {
    // nothing is left to tell it to
  }
}

/** Synchronous, so that the last line before an exit is not lost. A closed or full pipe loses lines, not the server. */
function toStderr(line: string) {
  try {
    writeSync(2, line);
  } catch {
    // see above
  }
}
