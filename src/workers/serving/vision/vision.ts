/**
 * Reads images for prompts, on a thread of its own. A conversation sends its images again with every turn, so the rows of the
 * newest images are kept.
 */

import { MIB } from "../../../lib/units.ts";
import type { Projector } from "../../../lib/vision/projector.ts";
import { compiled } from "../../../native/bundle/embedded.ts";
import { UnusableModel } from "../engine/types.ts";
import type { FromVision, SeenPiece, ToVision } from "./messages.ts";
import type { Picture } from "./resize.ts";

/** In the executable the thread is an entry point of its own (scripts/build.ts). */
const THREAD = compiled ? "/$bunfs/root/workers/serving/vision/thread.js" : new URL("./thread.ts", import.meta.url);
const KEPT_BYTES = 256 * MIB;

export type VisionOptions = Omit<Extract<ToVision, { type: "open" }>, "type"> & {
  /** Length of the model's embeddings. */
  width: number;
};

export type Vision = {
  readonly projector: Projector;
  /** Memory on the device. */
  readonly bytes: number;
  read: (picture: Picture) => Promise<readonly SeenPiece[]>;
  close: () => void;
};

type Waiting = { resolve: (pieces: SeenPiece[]) => void; reject: (error: Error) => void };

export async function openVision({ width, ...open }: VisionOptions): Promise<Vision> {
  const thread = new Worker(THREAD);
  const { promise, resolve, reject } = Promise.withResolvers<Extract<FromVision, { type: "opened" }>>();
  const waiting = new Map<number, Waiting>();
  thread.onerror = ({ message }) => {
    reject(new Error(message));
    for (const each of waiting.values()) each.reject(new Error(message));
    waiting.clear();
  };
  thread.onmessage = ({ data }: MessageEvent<FromVision>) => {
    if (data.type === "opened") return resolve(data);
    if (data.type === "unopened") return reject(data.unusable ? new UnusableModel(data.error) : new Error(data.error));
    const reader = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.type === "seen") reader?.resolve(data.pieces);
    else reader?.reject(new Error(data.error));
  };
  thread.postMessage({ type: "open", ...open } satisfies ToVision);
  try {
    const { projector, bytes } = await promise;
    if (projector.outputs !== width)
      throw new UnusableModel(
        `The projector of the model makes embeddings of ${projector.outputs} numbers, but the model's have ${width}. Import the model with its own projector`,
      );
    const kept = new KeptRows(KEPT_BYTES);
    let lastId = 0;
    const ask = (picture: Picture): Promise<SeenPiece[]> => {
      const answer = Promise.withResolvers<SeenPiece[]>();
      const id = ++lastId;
      waiting.set(id, answer);
      thread.postMessage({ type: "read", id, picture } satisfies ToVision);
      return answer.promise;
    };
    return { projector, bytes, read: (picture) => kept.get(picture, ask), close: () => thread.terminate() };
  } catch (error) {
    thread.terminate();
    throw error;
  }
}

type Entry = { pieces: Promise<readonly SeenPiece[]>; bytes: number };

/** The images read last, by a hash of their pixels. One that is being read counts as nothing yet. */
class KeptRows {
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(readonly mostBytes: number) {}

  get(picture: Picture, read: (picture: Picture) => Promise<readonly SeenPiece[]>): Promise<readonly SeenPiece[]> {
    const { width, height, pixels } = picture;
    const key = `${width} ${height} ${new Bun.CryptoHasher("sha256").update(pixels).digest("hex")}`;
    const stored = this.#entries.get(key);
    const entry = stored ?? { pieces: read(picture), bytes: 0 };
    this.#entries.delete(key);
    this.#entries.set(key, entry); // the newest is last
    if (!stored)
      entry.pieces.then(
        (pieces) => this.#count(key, entry, pieces),
        () => this.#entries.delete(key),
      );
    return entry.pieces;
  }

  #count(key: string, entry: Entry, pieces: readonly SeenPiece[]) {
    if (this.#entries.get(key) !== entry) return;
    entry.bytes = pieces.reduce((sum, piece) => sum + (typeof piece === "string" ? 0 : piece.embeddings.byteLength), 0);
    this.#bytes += entry.bytes;
    for (const [oldest, { bytes }] of this.#entries) {
      if (this.#bytes <= this.mostBytes) return;
      this.#entries.delete(oldest);
      this.#bytes -= bytes;
    }
  }
}
