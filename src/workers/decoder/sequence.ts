import type { GuessedText } from "./guessing/text.ts";
import type { Lease } from "./pages.ts";
import type { Admission } from "./types.ts";

/** The content that its slot had on the device, and that of its pages once these were given away. */
export type Paused = { slot: Uint8Array; pages: Uint8Array | null };

/** A sequence that was admitted, on the host. */
export type Sequence = {
  readonly id: number;
  slot: number;
  lease: Lease;
  readonly admission: Admission;
  /** The place of its adapter in the device's table; -1 = none. */
  readonly adapter: number;
  /** Null if its tokens are not guessed. */
  readonly text: GuessedText | null;
  /** The position that the next step decodes. */
  position: number;
  /** Tokens that may still be drawn by steps that are not queued yet. */
  left: number;
  over: boolean;
  /** The next token is drawn by a mask, those after it are not. */
  maskedOnce: boolean;
  /** Set while it has no slot. */
  paused: Paused | null;
};
