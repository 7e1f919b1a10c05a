/**
 * Copies a source's rows into a file of rows, with the same checks as an upload. Rows, count, hash and the position in
 * the source are one commit. After a crash the reading resumes there if the source has a stable order; otherwise it
 * starts again.
 */
import { rmSync } from "node:fs";
import type { Format } from "../../../lib/rows/format.ts";
import { createLineReader, type Piece, RowError } from "../../../lib/rows/lines.ts";
import type { Shape } from "../../../lib/rows/shape.ts";
import { isDatabase } from "../../../lib/source.ts";
import { openRows, type RowsFile } from "../../../platform/rows/file.ts";
import { createHashing } from "../../../platform/rows/hash.ts";
import type { Host } from "../../host.ts";
import type { FromConnector, ToConnector } from "../../protocol.ts";
import { type Connector, type Cursor, SourceError } from "../types.ts";
import { createShaping } from "./mapping.ts";

type Task = Extract<ToConnector, { type: "read" }>;
type ConnectorHost = Host<ToConnector, FromConnector>;
type Standing = {
  rows: number;
  bytes: number;
  format: Format | null;
  /** Absent in a file that an older version began. */
  shape?: Shape | null;
  cursor: Cursor | null;
};

const COMMIT_BYTES = 4 << 20;
const TELL_MS = 500;
const FRESH: Standing = { rows: 0, bytes: 0, format: null, cursor: null };
const encoder = new TextEncoder();

/** `received.bytes` grows with what the source sends over HTTP. */
export async function readInto(
  task: Task,
  connector: Connector,
  host: ConnectorHost,
  received = { bytes: 0 },
): Promise<FromConnector> {
  const { file, begun } = continueOrBegin(task.path);
  let [arrived, done] = [false, false];
  const rate = watchRate(task, received);
  const signal = AbortSignal.any([host.stopping, rate.tooSlow]);
  const onRows = (bytes: number) => {
    arrived = true;
    received.bytes += bytes;
    rate.begin();
  };
  try {
    const outcome = await read({ task, connector, host, signal, file, begun, onRows, onEnd: rate.end });
    done = true;
    return outcome;
  } catch (error) {
    if (rate.tooSlow.aborted) throw rate.tooSlow.reason;
    const isAnother = error instanceof SourceError && error.code === "broken" && begun.cursor !== null && !arrived;
    if (!isAnother) throw error;
  } finally {
    rate.end();
    const isOfUse = standingOf(file).cursor !== null || done;
    file.close();
    if (!isOfUse) remove(task.path); // such a file cannot be resumed
  }
  remove(task.path); // the source has changed: start from its beginning
  return readInto(task, connector, host, received);
}

const BUSY_SHARE = 0.5; // of the time: then this process is slow, not the source

/** A database may compute for long before its first row: `statement_ms` limits that. */
function watchRate({ source, min_rate: { bytes_per_second: least, seconds } }: Task, received: { bytes: number }) {
  const slow = new AbortController();
  let timer: ReturnType<typeof setInterval> | undefined;
  let before = { bytes: 0, cpu: process.cpuUsage() };
  const check = () => {
    const [bytes, cpu] = [received.bytes - before.bytes, process.cpuUsage(before.cpu)];
    before = { bytes: received.bytes, cpu: process.cpuUsage() };
    const isBusy = cpu.user + cpu.system > BUSY_SHARE * seconds * 1e6;
    if (bytes >= least * seconds || isBusy) return;
    const message = `The source sent ${bytes} bytes in ${seconds} seconds. At least ${least} bytes a second are needed (connectors.min_bytes_per_second)`;
    slow.abort(new SourceError("too_slow", message));
  };
  const begin = () => {
    if (least > 0) timer ??= setInterval(check, seconds * 1000);
  };
  if (!isDatabase(source.source_type)) begin();
  return { tooSlow: slow.signal, begin, end: () => clearInterval(timer) };
}

async function read(job: Omit<Job, "total">): Promise<FromConnector> {
  const { task, connector, host, file } = job;
  const total = isDatabase(task.source.source_type) ? null : await countAhead(connector, job.signal);
  const standing = await readRows({ ...job, total });
  job.onEnd();
  if (standing.rows === 0 || standing.format === null)
    throw new SourceError("invalid_rows", "The source has no rows. A dataset needs at least one");
  const { sha256 } = await createHashing(file).digest(standing.rows, host.stopping);
  await file.flush();
  const { rows, bytes, format } = standing;
  return { type: "read", rows, bytes, sha256, format };
}

/** Only for the progress. A database would run its query twice for this, and some charge for it. */
const countAhead = (connector: Connector, signal: AbortSignal): Promise<number | null> =>
  connector.count(signal).catch((error) => {
    if (error instanceof SourceError && error.code !== "broken") throw error;
    return null; // the reading itself will report the problem
  });

function continueOrBegin(path: string): { file: RowsFile; begun: Standing } {
  const file = openRows(path, "append");
  const begun = standingOf(file);
  if (begun.cursor !== null) return { file, begun };
  file.close();
  remove(path);
  return { file: openRows(path, "append"), begun: FRESH };
}

function standingOf(file: RowsFile): Standing {
  const noted = file.noted("standing");
  return noted === undefined ? FRESH : (JSON.parse(noted) as Standing);
}

function remove(path: string) {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

type Job = {
  task: Task;
  connector: Connector;
  host: ConnectorHost;
  file: RowsFile;
  begun: Standing;
  total: number | null;
  signal: AbortSignal;
  onRows: (bytes: number) => void;
  /** Called when all rows are here. */
  onEnd: () => void;
};

async function readRows({ task, connector, host, signal, file, begun, total, onRows }: Job): Promise<Standing> {
  const isResumed = begun.cursor !== null;
  const shaping = createShaping(task.source.hub_config?.column_mapping, isResumed ? (begun.shape ?? null) : undefined);
  const { first, visit } = shaping;
  const reader = createLineReader({ maxRowBytes: task.row_bytes, format: begun.format ?? undefined, first, visit });
  let standing = begun;
  let pending: Piece[] = [];
  let pendingBytes = 0;
  let told = 0;
  const store = async (cursor: Cursor | null) => {
    const rows = pending.reduce((sum, piece) => sum + piece.rows, 0);
    const next = {
      rows: standing.rows + rows,
      bytes: standing.bytes + pendingBytes,
      format: reader.format ?? null,
      shape: shaping.shape ?? null,
      cursor,
    };
    file.transact(() => {
      const bodies = pending.map(({ body }) => body);
      file.append(standing.rows + 1, bodies, [], Date.now());
      file.note("standing", JSON.stringify(next));
    });
    await file.flush();
    standing = next;
    pending = [];
    pendingBytes = 0;
  };
  const take = (pieces: Piece[]) => {
    pending.push(...pieces);
    for (const { body } of pieces) pendingBytes += body.byteLength;
  };
  const resume = begun.cursor ?? undefined;
  for await (const { lines, cursor } of connector.rows({ signal, resume })) {
    signal.throwIfAborted();
    onRows(lines.reduce((sum, line) => sum + line.length, 0));
    if (lines.length > 0) take(checked(reader, lines, begun.rows));
    if (pendingBytes >= COMMIT_BYTES) await store(cursor);
    if (Date.now() - told < TELL_MS) continue;
    told = Date.now();
    host.send({
      type: "reading",
      rows: begun.rows + reader.rows,
      bytes: standing.bytes + pendingBytes,
      total_rows: total,
    });
  }
  await store(null);
  return standing;
}

/** Each chunk is whole rows: the reader keeps nothing back, so that the cursor is exact. */
function checked(reader: ReturnType<typeof createLineReader>, lines: readonly string[], before: number): Piece[] {
  try {
    return [...reader.push(encoder.encode(`${lines.join("\n")}\n`)), ...reader.end()];
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    throw new SourceError("invalid_rows", `Row ${before + error.line}: ${error.why}`);
  }
}
