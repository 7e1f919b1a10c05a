/** Figures as people read them. Pure: the clock is an argument. */
import { formatBytes } from "../../lib/bytes.ts";
import { formatUsd } from "../../lib/money.ts";
import { formatDuration } from "../../lib/time.ts";

export const NONE = "–";

/** 1536 → "1.5 KiB" */
export const bytes = (value: number | null | undefined): string =>
  value === null || value === undefined || !Number.isFinite(value) ? NONE : formatBytes(value);

const WHOLE = new Intl.NumberFormat("en-US"); // a new one for each cell of a table would take longer than the cell

/** 1234567 → "1,234,567" */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? NONE : WHOLE.format(value);

/** At most `digits` significant digits: 0.012345 → "0.0123", 2640.4 → "2,640" */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return value.toExponential(digits - 1);
  const whole = Math.floor(Math.log10(Math.abs(value) || 1)) + 1;
  return decimals(Math.max(0, digits - whole)).format(value);
}

const DECIMALS: Intl.NumberFormat[] = [];
const decimals = (most: number) => (DECIMALS[most] ??= new Intl.NumberFormat("en-US", { maximumFractionDigits: most }));

export const percent = (share: number | null | undefined, digits = 0): string =>
  share === null || share === undefined ? NONE : `${(share * 100).toFixed(digits)} %`;

/** 12.5 → "$12.50" */
export const money = (usd: number | null | undefined): string =>
  usd === null || usd === undefined ? NONE : formatUsd(usd);

const STEPS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
] as const;

/** 3725 → "1 h 2 min", 8.2 → "8.2 s", 0.012 → "12 ms" */
export const duration = (seconds: number | null | undefined): string =>
  seconds === null || seconds === undefined || !Number.isFinite(seconds) ? NONE : formatDuration(seconds * 1000);

/** "just now", "8 min ago", "in 3 h", "2 d ago" */
export function ago(iso: string, nowMs: number): string {
  const seconds = (nowMs - Date.parse(iso)) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  const [size, unit] = STEPS.find(([size]) => Math.abs(seconds) >= size) ?? [1, "s"];
  const text = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** The exact time, in the reader's zone: "16 Nov 2026, 15:04:05 UTC" */
export const exactTime = (iso: string): string => (Number.isNaN(Date.parse(iso)) ? iso : EXACT.format(Date.parse(iso)));

/** 1 run, 2 runs */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** `waiting_for_memory` → "Waiting for memory" */
export const words = (name: string): string => {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};
