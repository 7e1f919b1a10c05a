/** Messages on a pipe: four bytes of length, little endian, then JSON. */
import { takingTurns } from "../turns.ts";

const HEADER = 4;

export function encodeFrame(message: unknown): Buffer {
  const body = JSON.stringify(message);
  const bytes = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(HEADER + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(body, HEADER);
  return frame;
}

/** The frame of `{ ...message, [name]: entries }`. The entries may be long: others have their turn between two of them. */
export async function encodeLongFrame(message: object, name: string, entries: readonly unknown[]): Promise<Buffer> {
  const turn = takingTurns();
  const parts = [
    Buffer.alloc(HEADER),
    Buffer.from(`${JSON.stringify(message).slice(0, -1)},${JSON.stringify(name)}:[`),
  ];
  for (const [i, entry] of entries.entries()) {
    await turn();
    parts.push(Buffer.from(`${i === 0 ? "" : ","}${JSON.stringify(entry)}`));
  }
  await turn();
  const frame = Buffer.concat([...parts, Buffer.from("]}")]);
  frame.writeUInt32LE(frame.length - HEADER, 0);
  return frame;
}

class FrameTooLong extends Error {}

/**
 * Splits a stream into frames. Holds at most one frame: throws as soon as a length exceeds `maxBytes`, or on invalid
 * JSON.
 */
export function createFrames(maxBytes: number): { push: (chunk: Uint8Array) => unknown[] } {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let wanted: number | undefined; // bytes of the current frame, without its header
  const take = (bytes: number): Buffer => {
    const all = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    held = [all.subarray(bytes)];
    heldBytes -= bytes;
    return all.subarray(0, bytes);
  };
  return {
    push(chunk) {
      held.push(Buffer.from(chunk));
      heldBytes += chunk.byteLength;
      const frames: unknown[] = [];
      for (;;) {
        if (wanted === undefined) {
          if (heldBytes < HEADER) return frames;
          wanted = take(HEADER).readUInt32LE(0);
          if (wanted > maxBytes) throw new FrameTooLong(`A frame has ${wanted} bytes; the maximum is ${maxBytes}`);
        }
        if (heldBytes < wanted) return frames;
        frames.push(JSON.parse(take(wanted).toString("utf8")));
        wanted = undefined;
      }
    },
  };
}
