/**
 * Bytes of tokens → text that may be shown. A character is never split, and nothing is shown that is a stop string or
 * may still become one. Pure; one instance per sample.
 */

/** What a push releases. `tokens`: how many of the tokens pushed so far, in all, belong to the text released so far. */
export type Released = { text: string; stopped: boolean; tokens: number };

export class TextOut {
  readonly #stops: readonly string[];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #pending = false; // the decoder may hold the first bytes of a character
  #held = ""; // decoded, but perhaps the beginning of a stop string
  #shown = 0; // code units released
  #decoded = 0; // code units decoded
  readonly #ends: number[] = []; // of the tokens not released: where their text ends
  #last = 0; // where the last released token ends
  #tokens = 0;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  /** `text` is the piece as a string when its bytes are whole characters: spares the decoder. */
  push(bytes: Uint8Array, text: string | null): Released {
    const fresh = text !== null && !this.#pending ? text : this.#decode(bytes);
    this.#decoded += fresh.length;
    if (this.#stops.length === 0) {
      this.#tokens++;
      return { text: fresh, stopped: false, tokens: this.#tokens };
    }
    this.#ends.push(this.#decoded);
    this.#held += fresh;
    const at = firstStop(this.#held, this.#stops);
    if (at >= 0) return this.#release(at, true);
    return this.#release(this.#held.length - pendingStop(this.#held, this.#stops), false);
  }

  /** The end: what was held comes out, a character that never became whole as U+FFFD. */
  finish(): Released {
    const rest = this.#pending ? this.#decoder.decode() : "";
    this.#pending = false;
    this.#decoded += rest.length;
    this.#held += rest;
    const at = firstStop(this.#held, this.#stops);
    const released = this.#release(at < 0 ? this.#held.length : at, at >= 0);
    if (at < 0) this.#tokens += this.#ends.splice(0).length;
    return { ...released, tokens: this.#tokens };
  }

  #decode(bytes: Uint8Array): string {
    const last = bytes.at(-1);
    if (last !== undefined) this.#pending = last >= 0x80; // perhaps: the decoder knows, and is asked while in doubt
    return this.#decoder.decode(bytes, { stream: true });
  }

  #release(length: number, stopped: boolean): Released {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    this.#shown += length;
    let whole = 0;
    while (whole < this.#ends.length && this.#ends[whole]! <= this.#shown) whole++;
    const begun = whole === 0 ? this.#last : this.#ends[whole - 1]!;
    if (stopped && whole < this.#ends.length && begun < this.#shown) whole++; // its first part was shown
    this.#last = this.#ends.splice(0, whole).at(-1) ?? this.#last;
    this.#tokens += whole;
    return { text, stopped, tokens: this.#tokens };
  }
}

/** Where the earliest stop string begins; -1 when there is none. */
function firstStop(text: string, stops: readonly string[]): number {
  let first = -1;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (first < 0 || at < first)) first = at;
  }
  return first;
}

/** How many code units at the end may still become a stop string. */
function pendingStop(text: string, stops: readonly string[]): number {
  let longest = 0;
  const last = text.charCodeAt(text.length - 1);
  for (const stop of stops) {
    const most = Math.min(stop.length - 1, text.length);
    for (let length = most; length > longest; length--) {
      if (stop.charCodeAt(length - 1) === last && text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
