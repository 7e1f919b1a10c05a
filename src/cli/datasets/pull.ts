import { statSync } from "node:fs";
import { resolve } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { ContentError, StorageError, writeStreamAtomic } from "../../platform/files.ts";
import { command, EXIT, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note } from "../output.ts";
import { createProgress, type Progress } from "../progress.ts";
import { createMeter, metered } from "../transfer/meter.ts";
import { type Dataset, mustFind, type Snapshot } from "./find.ts";

const FORMATS = ["jsonl", "csv"];

export const pull = command({
  summary: "Write the rows of a dataset to standard output or a file",
  takes: ["dataset"],
  flags: {
    ...SERVER_FLAGS,
    snapshot: {
      type: "string",
      value: "ID",
      doc: "As of this snapshot, such as @snap-3 or @latest (default: as of now)",
    },
    format: { type: "string", value: "FORMAT", doc: "jsonl or csv (default jsonl)" },
    output: { type: "string", value: "FILE", short: "o", doc: "The file; it is the old one or the whole new one" },
  },
  examples: ["verk datasets pull support -o support.jsonl", "verk datasets pull support --snapshot @snap-3 | head"],
  exits: {
    1: "failed: no such dataset or snapshot, the connection broke, or the hash is another",
    [INTERRUPTED]: "interrupted: FILE is as it was",
  },
  async run({ snapshot: name, format = "jsonl", output = "-", ...where }, target = "") {
    if (!FORMATS.includes(format))
      throw new UsageError(`--format: expected jsonl or csv, not ${JSON.stringify(format)}`);
    const file = output === "-" ? undefined : targetOf(output);
    const { client } = await connect(where);
    const dataset = await mustFind(client, target);
    const snapshot = await snapshotOf(client, dataset, name);
    const progress = file !== undefined || !process.stdout.isTTY ? createProgress() : SILENT;
    return await interruptible(async (signal) => {
      const query = new URLSearchParams({ format, ...(snapshot ? { snapshot: snapshot.id } : {}) });
      const chunks = client.download(`/v1/datasets/${dataset.id}/rows/export?${query}`, signal);
      const size = (format === "jsonl" ? (snapshot ?? dataset).size_bytes : undefined) ?? undefined;
      const meter = createMeter(progress, `reading ${dataset.name}`, size);
      const expected = format === "jsonl" ? snapshot?.sha256 : undefined;
      try {
        await (file === undefined ? toOutput : toFile(file))(metered(chunks, meter), expected);
      } finally {
        progress.end();
      }
      note(wordsOf({ dataset, snapshot, bytes: meter.bytes, checked: expected !== undefined }));
      return EXIT.ok;
    });
  },
});

const SILENT: Progress = { show: () => {}, end: () => {} };

function targetOf(output: string): string {
  const path = resolve(output);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`--output: ${output} is a folder: name a file in it`);
  return path;
}

/** The one that was named; else the newest where nothing came since it, because its hash can be checked. */
async function snapshotOf(client: Client, dataset: Dataset, name: string | undefined): Promise<Snapshot | undefined> {
  const isNow = dataset.unsnapshotted_rows === 0 || dataset.num_rows === null; // a connected one has nothing else
  const id = name ?? (isNow ? dataset.latest_snapshot_id : null);
  if (id === null) return undefined;
  return (await client.call<Snapshot>("GET", `/v1/datasets/${dataset.id}/snapshots/${encodeURIComponent(id)}`)).body;
}

type Write = (chunks: AsyncIterable<Uint8Array>, expectedSha256: string | undefined) => Promise<void>;

const toFile =
  (path: string): Write =>
  async (chunks, expectedSha256) => {
    try {
      await writeStreamAtomic(path, chunks, expectedSha256 === undefined ? {} : { expectedSha256 });
    } catch (error) {
      if (error instanceof ContentError) throw new ApiError(`${error.message}: ${path} was not written`, 0);
      if (error instanceof StorageError && error.reason === "denied")
        throw new UsageError(
          `Cannot write ${path}: permission denied. Redirect standard output instead: > FILE`,
          EXIT.failed,
        );
      throw error;
    }
  };

const toOutput: Write = async (chunks, expectedSha256) => {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of chunks) {
    hasher.update(chunk);
    await new Promise<void>((done, fail) => process.stdout.write(chunk, (error) => (error ? fail(error) : done())));
  }
  const sha256 = hasher.digest("hex");
  if (expectedSha256 !== undefined && sha256 !== expectedSha256)
    throw new ApiError(`What was written is damaged: its sha256 is ${sha256}, not ${expectedSha256}`, 0);
};

type Pulled = { dataset: Dataset; snapshot: Snapshot | undefined; bytes: number; checked: boolean };

function wordsOf({ dataset, snapshot, bytes, checked }: Pulled): string {
  const what = snapshot ? `${dataset.name}${snapshot.id}, ${snapshot.row_count} rows` : `${dataset.name} as of now`;
  return `${what}, ${formatBytes(bytes)}${checked ? `, sha256 ${snapshot?.sha256} as it should be` : ""}.`;
}
