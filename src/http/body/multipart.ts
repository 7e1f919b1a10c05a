import type { Readable } from "node:stream";
import { Busboy, type BusboyHeaders } from "@fastify/busboy";
import { AppError } from "../../lib/errors.ts";
import { takingTurns } from "../../lib/turns.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { watchSender } from "./sender_rate.ts";

export type FilePart = {
  /** The name of the form field. */
  name: string;
  filename: string;
  contentType: string;
  /** Must be read to its end or left by throwing. */
  stream: AsyncIterable<Uint8Array>;
};

type Options = {
  maxFileBytes: number;
  /** A slower sender is cut off, by the average over `windowMs`. */
  minBytesPerSecond: number;
  windowMs?: number;
  /** The longest pause of the sender. */
  silenceMs?: number;
  /** For each file in the order of the body, with the fields before it; the body waits. A throw ends the reading. */
  onFile: (part: FilePart, before: Readonly<Record<string, string>>) => Promise<void>;
  /** For the name of each other field as it arrives. A throw ends the reading. */
  onField?: (name: string) => void;
};

const MAX_FIELDS = 64;
const MAX_FIELD_BYTES = 65_536;
const MULTIPART = /^multipart\/form-data\s*;/i;

export const isMultipart = (request: Request) => MULTIPART.test(request.headers.get("content-type") ?? "");

/**
 * Reads a form of any size in constant memory. Files go to `onFile` as they arrive, the other fields are returned. When
 * it settles, no `onFile` is running.
 */
export async function readMultipart(
  request: Request,
  { maxFileBytes, minBytesPerSecond, windowMs = MINUTE_MS, silenceMs = MINUTE_MS, onFile, onField = () => {} }: Options,
): Promise<Record<string, string>> {
  if (!isMultipart(request))
    throw new AppError("unsupported_media_type", "Send the body as multipart/form-data with a boundary");
  const fields: Record<string, string> = {};
  const over = Promise.withResolvers<void>();
  let work: Promise<void> = Promise.resolve();
  const streams = new Set<Readable>();
  const parser = open(request);
  const rate = watchSender({ bytesPerSecond: minBytesPerSecond, windowMs, silenceMs, fail: over.reject });
  parser.on("field", (name, value, nameCut, valueCut) => {
    if (nameCut || valueCut) over.reject(malformed(`the field ${name.slice(0, 80)} is too long`));
    if (Object.hasOwn(fields, name)) over.reject(malformed(`the field ${name.slice(0, 80)} is there twice`));
    fields[name] = value;
    try {
      onField(name);
    } catch (error) {
      over.reject(error);
    }
  });
  parser.on("file", (name, stream, filename, _encoding, contentType) => {
    streams.add(stream);
    stream.on("error", () => {}); // the reader reports it; without a listener it would end the server
    stream.on("limit", () => stream.destroy(tooLarge(maxFileBytes)));
    work = work
      .then(() => onFile({ name, filename, contentType, stream }, fields))
      .finally(() => streams.delete(stream));
    work.catch(over.reject);
  });
  parser.on("fieldsLimit", () => over.reject(malformed(`more than ${MAX_FIELDS} fields`)));
  parser.on("partsLimit", () => over.reject(malformed(`more than ${MAX_FIELDS} parts`)));
  parser.on("error", (cause) => over.reject(malformed((cause as Error).message, cause)));
  parser.on("finish", () => void work.then(over.resolve, over.reject));
  over.promise.catch(() => {}); // the wait below reports it
  try {
    await Promise.race([over.promise, sendTo(request, parser, rate)]);
    await over.promise;
  } catch (error) {
    work = work.catch(() => {});
    parser.destroy();
    for (const stream of streams) stream.destroy(error as Error);
    await work;
    throw error;
  }
  return fields;

  function open({ headers }: Request) {
    const type = { "content-type": headers.get("content-type") ?? "" } as BusboyHeaders;
    const limits = { fields: MAX_FIELDS, parts: MAX_FIELDS, fieldSize: MAX_FIELD_BYTES, fileSize: maxFileBytes };
    try {
      return new Busboy({ headers: type, limits: { ...limits, headerPairs: 32 } });
    } catch (cause) {
      throw malformed((cause as Error).message, cause);
    }
  }
}

async function sendTo(request: Request, parser: InstanceType<typeof Busboy>, rate: ReturnType<typeof watchSender>) {
  let go = () => {};
  for (const happening of ["drain", "close"] as const) parser.on(happening, () => go());
  const turn = takingTurns();
  rate.wait();
  try {
    for await (const chunk of request.body ?? []) {
      if (parser.destroyed) return;
      rate.arrived(chunk.byteLength);
      if (!parser.write(chunk))
        await new Promise<void>((resolve) => {
          go = resolve;
        });
      await turn();
      rate.wait();
    }
  } finally {
    rate.end();
  }
  parser.end();
}

const malformed = (why: string, cause?: unknown) =>
  new AppError("invalid_request", `The multipart body cannot be read: ${why}`, { cause });
const tooLarge = (bytes: number) => new AppError("payload_too_large", `The file is larger than ${bytes} bytes`);
