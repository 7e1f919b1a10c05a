/** Alarms of a run: warnings and errors with the step they belong to. Pure. */
import type { Mark } from "../../kit/chart/series.ts";
import type { JobEvent, Point } from "./types.ts";

export type Alarm = { step: number; type: string; message: string; at: string };

/** The event says the step, or it is that of the last report before. */
export function alarmsOf(events: readonly JobEvent[], points: readonly Point[]): Alarm[] {
  const stepAt = (iso: string) => points.findLast(({ time }) => Date.parse(time) <= Date.parse(iso))?.step;
  return events
    .filter(({ level }) => level !== "info")
    .flatMap(({ type, message, data, created_at: at }) => {
      const step = typeof data["step"] === "number" ? data["step"] : stepAt(at);
      return step === undefined ? [] : [{ step, type, message, at }];
    })
    .sort((a, b) => a.step - b.step);
}

/** Few words for a mark on a curve. */
const SHORT: Readonly<Record<string, string>> = {
  reward_collapse: "reward collapsed",
  kl_blow_up: "far from the base model",
  truncation: "answers cut off",
  entropy_collapse: "explores little",
  same_rewards: "all rewards equal",
  rows_left_out: "rows left out",
  "job.requeued": "started again",
  "job.paused": "paused",
  "job.failed": "failed",
};
export const shortAlarm = (type: string): string => SHORT[type] ?? type.replaceAll(/[_.]/g, " ");

/** All alarms of one type. */
export type AlarmGroup = {
  type: string;
  /** Without those that repeat. */
  steps: number[];
  /** The newest one. */
  message: string;
};

/** In the order of their first steps. */
export function grouped(alarms: readonly Alarm[]): AlarmGroup[] {
  const groups = new Map<string, AlarmGroup>();
  for (const { type, step, message } of alarms) {
    const group = groups.get(type) ?? { type, steps: [], message };
    groups.set(type, group);
    if (!group.steps.includes(step)) group.steps.push(step);
    group.message = message;
  }
  return [...groups.values()];
}

/** A line for each step with an alarm. Only the first of each type has its words. */
export function marksOf(alarms: readonly Alarm[]): Mark[] {
  const named = new Set<string>();
  const lines = new Map<number, string>();
  for (const { step, type } of alarms) {
    const word = named.has(type) ? "" : shortAlarm(type);
    named.add(type);
    lines.set(step, [lines.get(step) ?? "", word].filter(Boolean).join(", "));
  }
  return [...lines].map(([x, label]) => ({ x, label }));
}
