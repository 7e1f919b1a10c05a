import { formatBytes } from "../../lib/bytes.ts";
import type { Progress } from "../progress.ts";

const REDRAW_MS = 100;

/** Counts bytes as they pass. */
export type Meter = {
  readonly bytes: number;
  pass: (bytes: number) => void;
  /** A meter for one of several files. Its bytes count here, too. */
  part: () => Meter;
  /** Subtracts all bytes of this meter, because they did not arrive and will be sent again. */
  undo: () => void;
};

/** Shows the progress and the speed of a transfer. */
export function createMeter(progress: Progress, what: string, totalBytes: number | undefined): Meter {
  const startedAt = performance.now();
  let shownAt = Number.NEGATIVE_INFINITY;
  let done = 0;
  return counting((bytes) => {
    done += bytes;
    const now = performance.now();
    if (now - shownAt < REDRAW_MS && done !== totalBytes) return;
    shownAt = now;
    const perSecond = done / Math.max(0.001, (now - startedAt) / 1000);
    const fraction = totalBytes ? Math.min(1, done / totalBytes) : undefined;
    progress.show(what, fraction, `${formatBytes(done)}, ${formatBytes(perSecond)}/s`);
  });
}

function counting(onBytes: (bytes: number) => void): Meter {
  let counted = 0;
  const pass = (bytes: number) => {
    counted += bytes;
    onBytes(bytes);
  };
  return {
    get bytes() {
      return counted;
    },
    pass,
    part: () => counting(pass),
    undo: () => pass(-counted),
  };
}

/** The same chunks, counted. */
export async function* metered<C extends Uint8Array>(chunks: AsyncIterable<C>, meter: Meter): AsyncGenerator<C> {
  for await (const chunk of chunks) {
    yield chunk;
    meter.pass(chunk.byteLength);
  }
}
