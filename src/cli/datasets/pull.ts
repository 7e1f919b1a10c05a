import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { count, note } from "../output.ts";
import { createProgress, SILENT } from "../progress.ts";
import { createMeter, metered } from "../transfer/meter.ts";
import { fileNamed, toFile, toOutput } from "../transfer/sink.ts";
import { type Dataset, mustFind, type Snapshot } from "./find.ts";

const FORMATS = ["jsonl", "csv", "spreadsheet"];

export const pull = command({
  summary: "Write the rows of a dataset to standard output or a file",
  takes: ["dataset"],
  flags: {
    ...SERVER_FLAGS,
    snapshot: {
      type: "string",
      value: "ID",
      doc: "Snapshot to read, such as @snap-3 or @latest (default: the current rows)",
    },
    format: {
      type: "string",
      value: "FORMAT",
      choices: ["jsonl", "csv", "spreadsheet"],
      doc: "jsonl, csv (exact, for programs) or spreadsheet (CSV in which no cell is a formula); default jsonl",
    },
    output: {
      type: "string",
      value: "FILE",
      short: "o",
      doc: "File to write; it is replaced only when the download is complete",
    },
  },
  examples: [
    "verk datasets pull support -o support.jsonl",
    "verk datasets pull support --snapshot @snap-3 | head",
    "verk datasets pull support --format spreadsheet -o support.csv",
  ],
  exits: {
    1: "failed: there is no such dataset or snapshot, the connection broke, or the checksum is wrong",
    [INTERRUPTED]: "interrupted: FILE is unchanged",
  },
  async run({ snapshot: name, format = "jsonl", output = "-", ...where }, target = "") {
    if (!FORMATS.includes(format))
      throw new UsageError(`--format: expected jsonl, csv or spreadsheet, not ${JSON.stringify(format)}`);
    const write = output === "-" ? toOutput : toFile(fileNamed("--output", output));
    const { client } = await connect(where);
    const dataset = await mustFind(client, target);
    const snapshot = await snapshotOf(client, dataset, name);
    // A bar would mix with the rows.
    const progress = output !== "-" || !process.stdout.isTTY ? createProgress() : SILENT;
    return await interruptible(async (signal) => {
      const query = new URLSearchParams({ format, ...(snapshot ? { snapshot: snapshot.id } : {}) });
      const chunks = client.download(`/v1/datasets/${dataset.id}/rows/export?${query}`, signal);
      const size = (format === "jsonl" ? (snapshot ?? dataset).size_bytes : undefined) ?? undefined;
      const meter = createMeter(progress, `reading ${dataset.name}`, size);
      const expected = format === "jsonl" ? snapshot?.sha256 : undefined;
      try {
        await write(metered(chunks, meter), expected);
      } finally {
        progress.end();
      }
      note(summaryOf({ dataset, snapshot, bytes: meter.bytes, checked: expected !== undefined }));
      return EXIT.ok;
    });
  },
});

/** The named snapshot; otherwise the newest one if no rows came after it, because its checksum can be verified. */
async function snapshotOf(client: Client, dataset: Dataset, name: string | undefined): Promise<Snapshot | undefined> {
  const isNow = dataset.unsnapshotted_rows === 0 || dataset.num_rows === null; // a connected dataset has only snapshots
  const id = name ?? (isNow ? dataset.latest_snapshot_id : null);
  if (id === null) return undefined;
  return (await client.call<Snapshot>("GET", `/v1/datasets/${dataset.id}/snapshots/${encodeURIComponent(id)}`)).body;
}

type Pulled = { dataset: Dataset; snapshot: Snapshot | undefined; bytes: number; checked: boolean };

function summaryOf({ dataset, snapshot, bytes, checked }: Pulled): string {
  const what = snapshot
    ? `${dataset.name}${snapshot.id}, ${count(snapshot.row_count, "row")}`
    : `${dataset.name}, current rows`;
  return `${what}, ${formatBytes(bytes)}${checked ? `, checksum verified (sha256 ${snapshot?.sha256})` : ""}.`;
}
