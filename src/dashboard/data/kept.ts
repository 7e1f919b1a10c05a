/** Choices about the look of pages, kept in the browser: columns, saved views, arranged charts. Never data of the server. */
import { type Signal, signal } from "@preact/signals";

const PREFIX = "verk.view.";
const MOST_CHARACTERS = 100_000;

const kept = new Map<string, Signal<unknown>>();

function stored(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null; // a text that is no JSON, or a browser that keeps nothing
  }
}

/** The kept value, as `parse` reads it: it may be of another version, or changed by hand. A signal read. */
export function readKept<T>(name: string, parse: (value: unknown) => T): T {
  const known = kept.get(name) ?? signal(stored(name));
  kept.set(name, known);
  return parse(known.value);
}

/** A browser that has no room keeps the value as long as the page is open. */
export function keep(name: string, value: unknown) {
  const known = kept.get(name) ?? signal(null);
  kept.set(name, known);
  known.value = value;
  const text = JSON.stringify(value);
  if (text.length > MOST_CHARACTERS) return;
  try {
    localStorage.setItem(PREFIX + name, text);
  } catch {}
}

/** A list of texts; anything else is `otherwise`. */
export const textsOr =
  <T>(otherwise: T) =>
  (value: unknown): string[] | T =>
    Array.isArray(value) && value.every((each) => typeof each === "string") ? value : otherwise;
