/** Serves rows as pages, diffs and exports. The JSON text of a row is sent as it was stored. */
import type { Ctx } from "../../../../context.ts";
import { keepOpen } from "../../../../http/connection.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isoTime } from "../../../../lib/time.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import {
  type Entry,
  liveBytes,
  liveRowsAfter,
  logEntries,
  type Page,
  placeOf,
} from "../../../../platform/rows/live.ts";
import { searchRows } from "../../../../platform/rows/search.ts";
import { snapshotId } from "../schema.ts";
import * as datasets from "../service.ts";
import type { DatasetRow, SnapshotRow } from "../table.ts";
import { type CsvForm, csvOf } from "./csv.ts";
import { hold, mustHold, pathFor } from "./files.ts";
import type { RowsHandle } from "./open_rows.ts";
import * as snapshots from "./snapshots.ts";

/** An open row file, and the last row of it that is visible. `rows` is undefined for a dataset without rows. */
type View = { rows: RowsHandle | undefined; head: number };

export function viewOf(ctx: Ctx, row: DatasetRow, snapshotName: string | undefined): View {
  const snapshot = snapshotName === undefined ? undefined : snapshots.mustGet(ctx, row, snapshotName);
  if (!snapshot) datasets.mustBeStream(row);
  const head = snapshot?.headRow ?? row.headRow;
  return { rows: head === 0 ? undefined : mustHold(ctx, pathFor(ctx, row, snapshot?.number ?? 0)), head };
}

const NOTHING: Page = { entries: [], hasMore: false };

type RowsQuery = {
  after?: string | undefined;
  from_row?: number | undefined;
  limit: number;
  snapshot?: string | undefined;
  live: boolean;
  contains?: string | undefined;
  ignore_case: boolean;
};

/** The cost does not depend on how deep the rows lie. */
export async function rowsPage(ctx: Ctx, row: DatasetRow, query: RowsQuery): Promise<Response> {
  const { from_row, limit, contains } = query;
  const after = rowIdOf(query.after);
  const { rows, head } = viewOf(ctx, row, query.snapshot);
  const isLive = query.live || query.snapshot !== undefined || contains !== undefined;
  try {
    if (!rows) return listText(NOTHING, contains === undefined ? undefined : 0);
    if (!isLive) return listText(logEntries(rows.file, from_row === undefined ? after : from_row - 1, limit, head));
    const root = from_row === undefined ? placeOf(rows.file, after) : from_row - 1;
    if (contains === undefined) return listText(await liveRowsAfter(rows.file, root, limit, head));
    const matches = await searchRows(rows.file, {
      root,
      limit,
      head,
      text: contains,
      ignoreCase: query.ignore_case,
    });
    return listText(matches, matches.scannedTo);
  } finally {
    rows?.release();
  }
}

function listText({ entries, hasMore }: Page, scannedTo?: number): Response {
  const scanned = scannedTo === undefined ? "" : `,"scanned_to":${scannedTo}`;
  return jsonText(`{"object":"list","data":[${entries.map(rowText).join()}],"has_more":${hasMore}${scanned}}`);
}

function rowIdOf(after: string | undefined): number {
  if (after === undefined) return 0;
  if (!/^\d{1,15}$/.test(after))
    throw new AppError("invalid_cursor", "after: must be the row_id of the last row of the previous page", {
      param: "after",
    });
  return Number(after);
}

const jsonText = (text: string) => new Response(text, { headers: { "content-type": "application/json" } });

const rowText = ({ rowId, op, target, text, createdAt }: Entry) =>
  `{"object":"dataset_row","row_id":${rowId},"op":"${op}","target_row_id":${target},"data":${text},"created_at":"${isoTime(createdAt)}"}`;

const CHANGES = { append: "added", supersede: "superseded", tombstone: "tombstoned" } as const;

/** The log entries between the heads of two snapshots. */
export function diff(
  ctx: Ctx,
  row: DatasetRow,
  { from, to, after, limit }: { from: SnapshotRow; to: SnapshotRow; after?: string | undefined; limit: number },
): Response {
  datasets.mustBeStream(row);
  if (from.number > to.number)
    throw new AppError(
      "invalid_request",
      `${snapshotId(from.number)} is newer than ${snapshotId(to.number)}: swap the two snapshots`,
    );
  const rows = hold(ctx, pathFor(ctx, row, to.number));
  try {
    // Both snapshots store their number of live rows, so the number of changes is enough to tell their kinds.
    const changes = rows?.file.changeCount(from.headRow + 1, to.headRow) ?? 0;
    const added = to.headRow - from.headRow - changes;
    const tombstoned = added - (to.rowCount - from.rowCount);
    const start = Math.max(from.headRow, rowIdOf(after));
    const { entries, hasMore } = rows ? logEntries(rows.file, start, limit, to.headRow) : NOTHING;
    const data = entries.map(({ rowId, op, target, text }) => {
      const ids = `"row_id":${rowId},"target_row_id":${target}`;
      return `{"object":"dataset_change","change":"${CHANGES[op]}",${ids},"data":${text}}`;
    });
    const names = `"from":"${snapshotId(from.number)}","to":"${snapshotId(to.number)}"`;
    const sums = `"added":${added},"superseded":${changes - tombstoned},"tombstoned":${tombstoned}`;
    return jsonText(
      `{"object":"dataset.diff","dataset_id":"${row.id}",${names},${sums},"data":[${data.join()}],"has_more":${hasMore}}`,
    );
  } finally {
    rows?.release();
  }
}

type ExportQuery = { snapshot?: string | undefined; format: "jsonl" | CsvForm };

/** Streams the live rows in constant memory. A slow client slows the stream down; a client that leaves ends it. */
export function exported(ctx: Ctx, request: Request, row: DatasetRow, { snapshot, format }: ExportQuery): Response {
  const { rows, head } = viewOf(ctx, row, snapshot);
  const filename = `${row.name.replaceAll(/[^\w.-]+/g, "_").slice(0, 80) || row.id}.${format === "jsonl" ? "jsonl" : "csv"}`;
  const type = format === "jsonl" ? "application/x-ndjson" : "text/csv";
  const headers = {
    "content-type": `${type}; charset=utf-8`,
    "content-disposition": `attachment; filename="${filename}"`,
  };
  if (request.method === "HEAD" || !rows) {
    rows?.release();
    return new Response(rows ? null : "", { headers });
  }
  keepOpen(ctx, request);
  const pieces = () => liveBytes(rows.file, head);
  const left = new AbortController();
  const signal = AbortSignal.any([left.signal, ctx.closing]);
  const source = format === "jsonl" ? bytesOf(pieces(), signal) : csvOf(pieces, format, signal);
  return new Response(streamOf(source, left, rows.release), { headers });
}

async function* bytesOf(pieces: Iterable<{ bytes: Uint8Array }>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const turn = takingTurns();
  for (const { bytes } of pieces) {
    await turn();
    signal.throwIfAborted();
    if (bytes.byteLength > 0) yield bytes;
  }
}

function streamOf(source: AsyncGenerator<Uint8Array>, left: AbortController, release: () => void) {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await source.next();
          if (!done) return controller.enqueue(value);
          release();
          controller.close();
        } catch (error) {
          release();
          controller.error(error);
        }
      },
      async cancel() {
        left.abort(); // The source may be busy for long before its next piece.
        await source.return(undefined);
        release();
      },
    },
    { highWaterMark: 1 },
  );
}
