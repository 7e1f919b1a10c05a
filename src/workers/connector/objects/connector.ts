import { kindByName } from "../../../lib/rows/file_kind.ts";
import { columnsOf, countOf, rowsOf } from "../formats/rows.ts";
import { type Chunk, type Connector, type Cursor, type Limits, type Reading, SourceError } from "../types.ts";
import { createReader, type Reader } from "./reader.ts";
import { changed, type OpenObject, type StoredObject } from "./store.ts";

type Files = {
  /** Returns the objects in a stable order. */
  objects: (signal: AbortSignal) => Promise<StoredObject[]>;
  /** The name of an object in messages. */
  nameOf: (object: StoredObject) => string;
  open: OpenObject;
  limits: Limits;
};

/** Reads the rows of many files as one source. */
export function objectConnector(files: Files): Connector {
  const { nameOf, open, limits } = files;
  let listed: StoredObject[] | undefined;
  const objects = async (signal: AbortSignal) => {
    listed ??= await files.objects(signal);
    return listed;
  };
  const readerOf = (signal: AbortSignal) => {
    const reader: Reader = createReader(open, signal);
    return (object: StoredObject) => reader(object, nameOf(object));
  };
  const connector: Connector = {
    async test(signal) {
      const first = (await objects(signal)).find(({ bytes }) => bytes > 0);
      if (first) await readerOf(signal)(first).read(0, 1);
    },
    async columns(signal) {
      const file = readerOf(signal);
      for (const object of await objects(signal)) {
        const columns = await columnsOf(file(object), limits.rowBytes);
        if (columns.length > 0) return columns;
      }
      return [];
    },
    async count(signal) {
      const all = await objects(signal);
      if (all.some((object) => !["parquet", undefined].includes(kindByName(object.key)))) return null;
      const file = readerOf(signal);
      let rows = 0;
      for (const object of all) {
        const more = await countOf(file(object));
        if (more === null) return null;
        rows += more;
      }
      return rows;
    },
    async *rows({ signal, resume }: Reading): AsyncGenerator<Chunk> {
      const all = await objects(signal);
      const start = resume ? placeOf(all, resume, nameOf) : { index: 0, row: 0, byte: null };
      const file = readerOf(signal);
      const before = digests(all);
      for (const [index, object] of all.entries()) {
        if (index < start.index) continue;
        const from = index === start.index ? start : { row: 0, byte: null };
        for await (const { lines, place } of rowsOf(file(object), { rowBytes: limits.rowBytes, from })) {
          signal.throwIfAborted();
          yield { lines, cursor: { key: object.key, etag: object.etag, ...place, before: before(index) } };
        }
      }
    },
  };
  return abortable(connector);
}

/**
 * `before` identifies the objects that were read completely. If one of them has changed, the reading cannot be resumed.
 */
function placeOf(all: readonly StoredObject[], cursor: Cursor, nameOf: (object: StoredObject) => string) {
  const { key, etag, row, byte, before } = cursor;
  const index = all.findIndex((object) => object.key === key);
  const object = all[index];
  if (!object || object.etag !== etag || digests(all)(index) !== before)
    throw changed(object ? nameOf(object) : `The list of files (${key} no longer exists)`);
  return { index, row: Number(row ?? 0), byte: typeof byte === "number" ? byte : null };
}

/** Returns a digest of the keys and versions before an index. Indexes must be rising. */
function digests(all: readonly StoredObject[]) {
  const hash = new Bun.CryptoHasher("sha256");
  let done = 0;
  let text = "";
  return (index: number): string => {
    if (text !== "" && done === index) return text;
    for (; done < index; done++) hash.update(`${all[done]!.key}\0${all[done]!.etag}\n`);
    text = hash.copy().digest("hex").slice(0, 32);
    return text;
  };
}

/** After an abort its reason is thrown, whatever error it caused. No error may contain a signed address. */
function abortable(connector: Connector): Connector {
  const told = (error: unknown, signal: AbortSignal) => (signal.aborted ? signal.reason : withoutAddresses(error));
  const guarded =
    <T>(work: (signal: AbortSignal) => Promise<T>) =>
    async (signal: AbortSignal): Promise<T> => {
      signal.throwIfAborted();
      try {
        return await work(signal);
      } catch (error) {
        throw told(error, signal);
      }
    };
  return {
    test: guarded(connector.test),
    columns: guarded(connector.columns),
    count: guarded(connector.count),
    async *rows(reading) {
      reading.signal.throwIfAborted();
      try {
        yield* connector.rows(reading);
      } catch (error) {
        throw told(error, reading.signal);
      }
    },
  };
}

/** Bun's network errors hold the whole URL with its query in `path`. They are read-only, so the error is replaced. */
function withoutAddresses(error: unknown): unknown {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at.cause instanceof Error && "path" in at.cause) at.cause = undefined;
  return error;
}

export const unusable = (message: string, param = "/source_uri") => new SourceError("invalid_source", message, param);
