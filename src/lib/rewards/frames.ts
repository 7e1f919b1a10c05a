/** Messages on a pipe: four bytes of length, little end first, then JSON. */

const HEADER = 4;

export function encodeFrame(message: unknown): Buffer {
  const body = JSON.stringify(message);
  const bytes = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(HEADER + bytes);
  frame.writeUInt32LE(bytes, 0);
  frame.write(body, HEADER);
  return frame;
}

export class FrameTooLong extends Error {}

/** Takes a stream apart. Holds at most one frame: throws as soon as a length is over `maxBytes`, or JSON is not JSON. */
export function createFrames(maxBytes: number): { push: (chunk: Uint8Array) => unknown[] } {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let wanted: number | undefined; // bytes of the frame that is coming in, its header not counted
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
          if (wanted > maxBytes) throw new FrameTooLong(`A frame of ${wanted} bytes; at most ${maxBytes} are taken`);
        }
        if (heldBytes < wanted) return frames;
        frames.push(JSON.parse(take(wanted).toString("utf8")));
        wanted = undefined;
      }
    },
  };
}
