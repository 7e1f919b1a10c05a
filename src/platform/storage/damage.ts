/** Stored content that is not what was put. */
import { MIB } from "../../lib/units.ts";
import { StorageError, type Written } from "../files.ts";

/** Content up to this size is hashed before its first byte is given. Larger content is hashed while it is read. */
export const HASHED_FIRST_BYTES = MIB;

const ADVICE = "a stored file is damaged. Upload it again, or restore it from a backup";

/** The content of a key is there, but it is not what was put. */
export class DamagedError extends StorageError {
  constructor(
    path: string,
    readonly why: string,
  ) {
    super(path, "read", undefined);
    this.name = "DamagedError";
    this.message = `Cannot read ${path}: the stored content is damaged: ${why}`;
  }
  override get advice() {
    return ADVICE;
  }
}

export type OnDamage = (error: DamagedError) => void;

export const wrongSize = (actual: number, bytes: number) => `it has ${actual} bytes instead of ${bytes}`;
export const wrongHash = (actual: string, sha256: string) => `its sha256 is ${actual} instead of ${sha256}`;

/**
 * Passes a whole content on and compares its hash. The last bytes are held back until the hash is known to be right, so
 * that no reader takes damaged content for whole. `damaged` makes the error of the stream.
 */
export function verifying(
  source: ReadableStream<Uint8Array>,
  { bytes, sha256 }: Written,
  damaged: (why: string) => Error,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  const hasher = new Bun.CryptoHasher("sha256");
  let left = bytes;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          hasher.update(value);
          left -= value.byteLength;
          const actual = left > 0 ? sha256 : hasher.digest("hex");
          if (actual !== sha256) throw damaged(wrongHash(actual, sha256));
          controller.enqueue(value);
          if (left === 0) controller.close();
        } catch (error) {
          reader.cancel().catch(() => {}); // the source has failed or ended
          controller.error(error);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
