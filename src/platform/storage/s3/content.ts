/** Reads the content of a key from the bucket. */
import { GetObjectCommand } from "@aws-sdk/client-s3";
import { sha256Bytes } from "../../files.ts";
import { DamagedError, HASHED_FIRST_BYTES, type OnDamage, verifying, wrongHash, wrongSize } from "../damage.ts";
import type { Bucket } from "./bucket.ts";
import { asBucketError, isNamed } from "./errors.ts";
import type { Ref } from "./refs.ts";
import type { Pins } from "./sweep.ts";

type Piece = { offset: number; bytes: number };
type Content = { bucket: Bucket; pins: Pins; ref: Ref; onDamage: OnDamage };
type Bytes = ReadableStream<Uint8Array>;

/** Undefined where there is no such object. Throws DamagedError as `Storage.get` does. */
export async function openContent(content: Content, piece: Piece): Promise<Bytes | undefined> {
  const { bucket, ref, onDamage } = content;
  const damaged = (why: string) => {
    const error = new DamagedError(`${bucket.place}/objects/${ref.object}`, why);
    onDamage(error);
    return error;
  };
  const stream = await openObject(content, piece, damaged);
  if (!stream || piece.bytes < ref.bytes) return stream;
  if (ref.bytes > HASHED_FIRST_BYTES) return verifying(stream, ref, damaged);
  const bytes = await new Response(stream).bytes();
  const actual = sha256Bytes(bytes);
  if (actual !== ref.sha256) throw damaged(wrongHash(actual, ref.sha256));
  return streamOfBytes(bytes);
}

type MakeError = (why: string) => DamagedError;

/** Held against a sweep until it has been read or cancelled: a server may open the later parts of it only then. */
async function openObject({ bucket, pins, ref }: Content, { offset, bytes }: Piece, damaged: MakeError) {
  if (bytes === 0) return streamOfBytes(new Uint8Array());
  const { object } = ref;
  pins.hold(object);
  try {
    const Range = `bytes=${offset}-${offset + bytes - 1}`;
    const answer = await bucket.orMissing("read", () =>
      bucket.client.send(new GetObjectCommand({ ...bucket.at(`objects/${object}`), Range })).catch((error: unknown) => {
        if (isNamed(error, "InvalidRange")) return "too short" as const;
        throw error;
      }),
    );
    if (!answer) return undefined;
    if (answer === "too short") throw damaged(`it has fewer than ${offset + 1} bytes instead of ${ref.bytes}`);
    const body = answer.Body as unknown as Bytes;
    const size = totalOf(answer.ContentRange);
    if (size !== undefined && size !== ref.bytes) {
      body.cancel().catch(() => {}); // the damage is the error to report
      throw damaged(wrongSize(size, ref.bytes));
    }
    pins.hold(object);
    return streamOf(bucket, body, bytes, () => pins.release(object));
  } finally {
    pins.release(object);
  }
}

/** `bytes 0-4/5` → 5. */
const totalOf = (range: string | undefined): number | undefined => {
  const digits = /\/(\d+)$/.exec(range ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
};

const streamOfBytes = (bytes: Uint8Array): Bytes =>
  new ReadableStream<Uint8Array>({
    start: (controller) => {
      if (bytes.byteLength > 0) controller.enqueue(bytes);
      controller.close();
    },
  });

function streamOf(bucket: Bucket, body: Bytes, bytes: number, over: () => void): Bytes {
  const reader = body.getReader();
  let left = bytes;
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            left -= value.byteLength;
            controller.enqueue(value);
            if (left > 0) return;
          }
          if (left !== 0) throw Object.assign(new Error("the answer ended early"), { code: "ECONNRESET" });
          over();
          controller.close();
        } catch (error) {
          over();
          controller.error(asBucketError(bucket.place, "read", error));
        }
      },
      cancel: async () => {
        over();
        await reader.cancel();
      },
    },
    { highWaterMark: 0 },
  );
}
