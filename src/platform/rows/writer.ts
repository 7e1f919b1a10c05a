import { MIB } from "../../lib/units.ts";
import type { Meter } from "../files.ts";
import { openRows, type RowsFile } from "./file.ts";

const COMMIT_BYTES = MIB;

/** Writes rows into a new row file, in commits of about `COMMIT_BYTES`. */
export class RowsWriter {
  readonly #file: RowsFile;
  readonly #now: number;
  readonly #meter: Meter;
  #next = 1;
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  /** All rows so far. */
  bytes = 0;

  constructor(path: string, { now, meter }: { now: number; meter: Meter }) {
    this.#file = openRows(path, "build");
    this.#now = now;
    this.#meter = meter;
  }

  /** Each body is whole rows. */
  add(pieces: readonly { body: Uint8Array }[]) {
    for (const { body } of pieces) {
      this.#pending.push(body);
      this.#pendingBytes += body.byteLength;
      this.bytes += body.byteLength;
      if (this.#pendingBytes >= COMMIT_BYTES) this.#commit();
    }
  }

  #commit() {
    this.#meter.take(this.#pendingBytes);
    this.#file.transact(() => {
      this.#next = this.#file.append(this.#next, this.#pending, [], this.#now) + 1;
    });
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  async flush() {
    this.#commit();
    await this.#file.flush();
  }

  close() {
    this.#file.close();
  }
}
