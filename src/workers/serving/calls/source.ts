/**
 * Text that arrives in pieces, for readers written as generators. A reader yields when the text so far does not decide
 * what follows. It decides only on the text and never on where a piece ends, so every split gives the same result. Pure.
 */

/** A part of a reader. It yields to wait for more text. */
export type Reading<T = void> = Generator<void, T, void>;

const MAX_HEAD = 512; // characters of a call before its arguments

export class Source {
  held = "";
  ended = false;
  #taken = "";

  /** Consumes this many characters. */
  take(length: number): string {
    const text = this.held.slice(0, length);
    this.held = this.held.slice(length);
    this.#taken += text;
    return text;
  }

  /** From here on `sinceMark` collects the consumed text. */
  mark() {
    this.#taken = "";
  }

  get sinceMark() {
    return this.#taken;
  }

  startsWith(text: string): boolean {
    return this.held.startsWith(text);
  }
}

/** Returns how many characters at the end of `text` may be the beginning of `marker`. */
function openEnd(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--)
    if (marker.startsWith(text.slice(-length))) return length;
  return 0;
}

export type MarkerAt = { at: number; marker: string };

/** Returns the earliest marker. */
export function firstOf(text: string, markers: readonly string[]): MarkerAt | undefined {
  let first: MarkerAt | undefined;
  for (const marker of markers) {
    const at = text.indexOf(marker);
    if (at >= 0 && (!first || at < first.at)) first = { at, marker };
  }
  return first;
}

/** Returns how much of the text is certainly before any marker. */
export const settled = (text: string, markers: readonly string[]): number =>
  text.length - markers.reduce((most, marker) => Math.max(most, openEnd(text, marker)), 0);

/** Consumes `text` if it comes next. */
export function* literally(source: Source, text: string): Reading<boolean> {
  while (!source.ended && source.held.length < text.length && text.startsWith(source.held)) yield;
  if (!source.startsWith(text)) return false;
  source.take(text.length);
  return true;
}

/** Consumes the characters of `set` that come next. */
export function* skip(source: Source, set: RegExp = /^\s+/): Reading {
  while (true) {
    const match = set.exec(source.held);
    if (match) source.take(match[0].length);
    if (source.held !== "" || source.ended) return;
    yield;
  }
}

/**
 * Consumes a short text up to one of the markers, and the marker if it is not a brace. Returns undefined, without
 * consuming, if no marker comes soon.
 */
export function* head(
  source: Source,
  markers: readonly string[],
): Reading<{ text: string; marker: string } | undefined> {
  const longest = Math.max(...markers.map((marker) => marker.length));
  while (true) {
    const marked = firstOf(source.held, markers);
    if (marked && marked.at <= MAX_HEAD) {
      const text = source.take(marked.at);
      if (marked.marker !== "{") source.take(marked.marker.length);
      return { text, marker: marked.marker };
    }
    if (source.ended || source.held.length > MAX_HEAD + longest) return undefined;
    yield;
  }
}
