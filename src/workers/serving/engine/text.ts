/**
 * Turns bytes of tokens into text that may be shown. It never splits a character and never shows a stop string or the
 * beginning of one. Pure; one instance per sample.
 */

/**
 * The text that a push releases. `stop`: the stop string that ends the text. `tokens`: how many of all pushed tokens belong
 * to the text released so far.
 */
export type Released = { text: string; stop: string | undefined; tokens: number };

export class TextOut {
  readonly #stops: readonly string[];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #pending = false; // the decoder may hold the first bytes of a character
  #held = ""; // decoded text that may be the beginning of a stop string
  #shown = 0; // code units released
  #decoded = 0; // code units decoded
  readonly #ends: number[] = []; // ends of the texts of tokens not yet released
  #last = 0; // end of the last released token
  #tokens = 0;

  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop !== "");
  }

  /** `text` is the piece as a string if its bytes are whole characters. It saves the decoder a call. */
  push(bytes: Uint8Array, text: string | null): Released {
    const fresh = text !== null && !this.#pending ? text : this.#decode(bytes);
    this.#decoded += fresh.length;
    if (this.#stops.length === 0) {
      this.#tokens++;
      return { text: fresh, stop: undefined, tokens: this.#tokens };
    }
    this.#ends.push(this.#decoded);
    this.#held += fresh;
    const end = firstStop(this.#held, this.#stops);
    if (end) return this.#release(end.at, end.stop);
    return this.#release(this.#held.length - pendingStop(this.#held, this.#stops));
  }

  /** Ends the text: releases the held text. The first bytes of a character whose last ones never came are dropped. */
  finish(): Released {
    if (this.#pending) this.#decoder.decode();
    this.#pending = false;
    const end = firstStop(this.#held, this.#stops);
    const released = this.#release(end?.at ?? this.#held.length, end?.stop);
    if (!end) this.#tokens += this.#ends.splice(0).length;
    return { ...released, tokens: this.#tokens };
  }

  #decode(bytes: Uint8Array): string {
    const last = bytes.at(-1);
    if (last !== undefined) this.#pending = last >= 0x80; // only possibly: the decoder is called while this is true
    return this.#decoder.decode(bytes, { stream: true });
  }

  #release(length: number, stop?: string): Released {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    this.#shown += length;
    let whole = 0;
    while (whole < this.#ends.length && this.#ends[whole]! <= this.#shown) whole++;
    const begun = whole === 0 ? this.#last : this.#ends[whole - 1]!;
    if (stop !== undefined && whole < this.#ends.length && begun < this.#shown) whole++; // its first part was shown already
    this.#last = this.#ends.splice(0, whole).at(-1) ?? this.#last;
    this.#tokens += whole;
    return { text, stop, tokens: this.#tokens };
  }
}

/** Returns the stop string that begins first. */
function firstStop(text: string, stops: readonly string[]): { at: number; stop: string } | undefined {
  let first: { at: number; stop: string } | undefined;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at >= 0 && (!first || at < first.at)) first = { at, stop };
  }
  return first;
}

/** Returns how many code units at the end may still become a stop string. */
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
