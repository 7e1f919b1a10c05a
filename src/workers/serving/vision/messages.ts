/** Messages between the main thread of a serving worker and the thread that reads images. */
import type { Projector } from "../../../lib/vision/projector.ts";
import type { Picture } from "./resize.ts";

export type ToVision =
  | { type: "open"; dataDir: string; path: string; threads: number; gpus: readonly number[] }
  | { type: "read"; id: number; picture: Picture };

/** Text with control tokens, or the rows of a square. `key` is a hash of its pixels. */
export type SeenPiece = string | { rows: number; embeddings: Float32Array; key: Int32Array };

export type FromVision =
  | { type: "opened"; projector: Projector; bytes: number }
  /** `unusable`: the file is no projector that can be used here. */
  | { type: "unopened"; error: string; unusable: boolean }
  | { type: "seen"; id: number; pieces: SeenPiece[] }
  | { type: "unseen"; id: number; error: string };
