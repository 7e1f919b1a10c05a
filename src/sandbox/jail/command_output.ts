/** Splits the output of a command into lines: all go to the log, and some are metrics. */
import { KIB } from "../../lib/units.ts";
import type { JailOutput } from "./types.ts";

type Stream = JailOutput["stream"];

export type Point = { step: number; epoch: number; values: Record<string, number> };
type Output = { stream: Stream; bytes: Uint8Array };
export type Lines = { push: (output: Output) => void; end: () => void };

const MOST_PENDING = 64 * KIB; // characters of a line without an end
const HIDDEN = "[secret]";
const PIECE_BYTES = KIB; // may hold sixty points, and each is recorded
const WORK_MS = 4;
const REST = 3; // times as long as the work took

/**
 * Limits a command that prints without end to a part of this thread: its pipe fills, and the command waits. Output that
 * is unread when the command ends is dropped.
 */
export const throttled =
  (push: Lines["push"], ended: AbortSignal) =>
  async ({ stream, bytes }: Output) => {
    let begun = performance.now();
    for (let at = 0; at < bytes.byteLength && !ended.aborted; at += PIECE_BYTES) {
      push({ stream, bytes: bytes.subarray(at, at + PIECE_BYTES) });
      const ms = performance.now() - begun;
      if (ms < WORK_MS) continue;
      await Bun.sleep(REST * ms);
      begun = performance.now();
    }
    await Bun.sleep(REST * (performance.now() - begun));
  };

/** `isOpen`: the last of the lines goes on with the next line of its stream. */
type OnLines = (stream: Stream, lines: string[], more: { isOpen: boolean }) => void;

/** `hidden`: values of secrets, which are replaced in every line. */
export function linesOf(hidden: readonly string[], onLines: OnLines): Lines {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const pending = { stdout: "", stderr: "" };
  const isOpen = { stdout: false, stderr: false };
  const secrets = hidden.filter((value) => value.length > 0).sort((a, b) => b.length - a.length);
  const tail = Math.max(0, (secrets[0]?.length ?? 0) - 1); // may be the beginning of a secret
  const hide = (text: string) => secrets.reduce((shown, secret) => shown.replaceAll(secret, HIDDEN), text);
  const emit = (stream: Stream, lines: readonly string[]) => {
    onLines(
      stream,
      lines.map((line) => hide(line.replace(/\r$/, ""))),
      { isOpen: false },
    );
    isOpen[stream] = false;
  };
  const take = (stream: Stream, text: string) => {
    const lines = (pending[stream] + text).split("\n");
    pending[stream] = lines.pop() ?? "";
    if (lines.length > 0) emit(stream, lines);
    if (pending[stream].length < MOST_PENDING + tail) return;
    const shown = hide(pending[stream]);
    onLines(stream, [shown.slice(0, shown.length - tail)], { isOpen: true });
    pending[stream] = shown.slice(shown.length - tail);
    isOpen[stream] = true;
  };
  return {
    push: ({ stream, bytes }) => take(stream, decoders[stream].decode(bytes, { stream: true })),
    end() {
      for (const stream of ["stdout", "stderr"] as const) {
        take(stream, decoders[stream].decode());
        if (pending[stream] !== "" || isOpen[stream]) emit(stream, [pending[stream]]);
        pending[stream] = "";
      }
    },
  };
}

const MOST_KEYS = 200; // names of metrics in one run
const MOST_POINTS = 200_000;
const MOST_VALUES = 5_000_000;
const NAMED = 5; // names in a warning

/**
 * Limits the metrics of one run: they are read together. Returns the part of a point that is recorded; the rest is only
 * in the log. `warn` is called once for names and once for points.
 */
export function limitPoints(warn: (message: string) => void): (point: Point) => Point | undefined {
  const keys = new Set<string>();
  const dropped = new Set<string>();
  let [points, values] = [0, 0];
  let isFull = false;
  const isKept = (key: string) => {
    if (keys.size < MOST_KEYS) keys.add(key);
    return keys.has(key);
  };
  return (point) => {
    if (isFull) return undefined;
    const [kept, others] = [Object.entries(point.values).filter(([key]) => isKept(key)), Object.keys(point.values)];
    if (kept.length < others.length && dropped.size === 0) {
      for (const key of others) if (!keys.has(key)) dropped.add(key);
      warn(`A run has at most ${MOST_KEYS} metrics. Others are only in the log: ${namesOf([...dropped])}`);
    }
    points++;
    values += kept.length;
    if (points > MOST_POINTS || values > MOST_VALUES) {
      isFull = true;
      warn(
        `A run has at most ${MOST_POINTS} points with ${MOST_VALUES} values. Metrics from step ${point.step} on are only in the log`,
      );
      return undefined;
    }
    return kept.length === 0 ? undefined : { ...point, values: Object.fromEntries(kept) };
  };
}

const namesOf = (names: readonly string[]) =>
  names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${names.length - NAMED} more` : names.join(", ");

const NAME = /^[a-z_][\w./:@ -]{0,99}$/i; // no formula that a spreadsheet would run
const MOST_STEPS = 1e9;

/** Reads `{"step": 1, "loss": 0.5}`: every other field with a number is a metric. Undefined for any other line. */
export function pointOf(line: string): Point | undefined {
  if (!line.startsWith("{") || !line.includes('"step"')) return undefined;
  let read: unknown;
  try {
    read = JSON.parse(line);
  } catch {
    return undefined;
  }
  const { step, epoch, ...rest } = read as Record<string, unknown>;
  if (!Number.isInteger(step) || (step as number) < 0 || (step as number) > MOST_STEPS) return undefined;
  const values = Object.entries(rest).filter(
    (entry): entry is [string, number] =>
      NAME.test(entry[0]) && typeof entry[1] === "number" && Number.isFinite(entry[1]),
  );
  if (values.length === 0) return undefined;
  return { step: step as number, epoch: typeof epoch === "number" ? epoch : 0, values: Object.fromEntries(values) };
}

/** The last metrics of each step. */
export const pointsOf = (lines: readonly string[]): Iterable<Point> =>
  new Map(lines.flatMap((line) => pointOf(line) ?? []).map((point) => [point.step, point])).values();
