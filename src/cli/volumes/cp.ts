import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { printResult } from "../output.ts";
import { createProgress, type Progress, SILENT } from "../progress.ts";
import { createMeter } from "../transfer/meter.ts";
import { isStream, openSource } from "../transfer/source.ts";
import { download, type Transfer, upload, uploadStream } from "./move.ts";
import { type Copy, planDownload, planUpload, type Remote, remoteOf } from "./plan.ts";

const AT_ONCE = 4;

type Ends = { from: string; to: string; recursive: boolean };
type Job = { client: Client; ends: Ends; progress: Progress; signal: AbortSignal };
type Done = { files: number; unchanged: number; bytes: number };

export const cp = command({
  summary:
    "Copy files into a volume or out of it; checksums are verified, and a file is replaced only when it is complete",
  takes: ["from", "to"],
  flags: {
    ...SERVER_FLAGS,
    recursive: {
      type: "boolean",
      short: "r",
      doc: "Copy folders; files that the volume has already are not sent again",
    },
    json: JSON_FLAG,
  },
  examples: [
    "verk volumes cp ./data.bin lab:inputs/data.bin",
    "verk volumes cp -r ./checkpoints lab:",
    "verk volumes cp -r lab:checkpoints ./",
    "verk volumes cp lab:log.txt - | tail",
  ],
  exits: {
    1: "failed: files copied before the failure stay",
    [INTERRUPTED]: "interrupted: files copied before stay",
  },
  async run({ recursive, json, ...where }, from = "", to = "") {
    const [source, target] = [remoteOf(from), remoteOf(to)];
    if (!source === !target)
      throw new UsageError(
        `volumes cp: one argument must be a path in a volume (lab:path) and the other a local file, not ${from} and ${to}`,
      );
    const { client } = await connect(where);
    const progress = to === "-" && process.stdout.isTTY ? SILENT : createProgress();
    return await interruptible(async (signal) => {
      const job = { client, ends: { from, to, recursive }, progress, signal };
      const done = await (target ? copyIn(job, target) : copyOut(job, source as Remote)).finally(progress.end);
      printResult(json, { object: "volume.copy", from, to, ...done }, { remark: summaryOf(done) });
      return EXIT.ok;
    });
  },
});

const summaryOf = ({ files, unchanged, bytes }: Done) =>
  `${files} ${files === 1 ? "file" : "files"}, ${formatBytes(bytes)}${unchanged > 0 ? `; ${unchanged} unchanged` : ""}.`;

async function copyIn({ client, ends, progress, signal }: Job, target: Remote): Promise<Done> {
  const { volume, path } = target;
  if (ends.from === "-" || isStream(ends.from)) {
    const isFolder = path === "" || path.endsWith("/");
    if (isFolder && ends.from === "-")
      throw new UsageError("volumes cp: standard input has no name. Give a complete path, such as lab:data.bin.");
    const source = await openSource(ends.from);
    const to = isFolder ? path + source.name : path;
    const meter = createMeter(progress, `copying to ${to}`, undefined);
    await uploadStream({ client, volume, meter, signal }, source, to).finally(source.close);
    return { files: 1, unchanged: 0, bytes: meter.bytes };
  }
  const copies = await planUpload(client, ends.from, target, ends.recursive);
  return await all({ client, volume, progress, signal }, copies, upload);
}

async function copyOut({ client, ends, progress, signal }: Job, source: Remote): Promise<Done> {
  const copies = await planDownload(client, source, ends.to, ends.recursive);
  if (ends.to === "-" && ends.recursive)
    throw new UsageError("volumes cp: a folder cannot be written to standard output. Copy one file without -r.");
  return await all({ client, volume: source.volume, progress, signal }, copies, async (transfer, copy) => {
    await download(transfer, copy);
    return true;
  });
}

type Many = Omit<Transfer, "meter"> & { progress: Progress };

/** Copies a few files at a time. The first failure stops all; files copied before stay. */
async function all(
  { progress, ...transfer }: Many,
  copies: readonly Copy[],
  move: (transfer: Transfer, copy: Copy) => Promise<boolean>,
): Promise<Done> {
  const bytes = copies.reduce((sum, { size }) => sum + size, 0);
  const what = copies.length === 1 ? `copying ${copies[0]?.from}` : `copying ${copies.length} files`;
  const meter = createMeter(progress, what, bytes);
  const failed = new AbortController();
  const signal = AbortSignal.any([transfer.signal, failed.signal]);
  let [next, unchanged] = [0, 0];
  const worker = async () => {
    for (let copy = copies[next++]; copy && !signal.aborted; copy = copies[next++])
      if (!(await move({ ...transfer, meter, signal }, copy))) unchanged++;
  };
  const workers = Array.from({ length: AT_ONCE }, worker);
  try {
    await Promise.all(workers);
  } catch (error) {
    failed.abort();
    await Promise.allSettled(workers); // each cancels its upload
    throw error;
  }
  return { files: copies.length, unchanged, bytes };
}
