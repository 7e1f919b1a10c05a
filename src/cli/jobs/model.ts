import { existsSync } from "node:fs";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { bytesOf, type Client, request } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { pollUntil } from "../poll.ts";
import { createProgress } from "../progress.ts";
import { folderNamed, isFolderName, toFolder } from "../transfer/folder.ts";
import { createMeter, metered } from "../transfer/meter.ts";
import { fileNamed, type Sink, toFile } from "../transfer/sink.ts";
import { isStream } from "../transfer/source.ts";
import { mustFind, pathOf } from "./find.ts";

const VARIANTS = ["adapter", "merged", "gguf", "peft", "huggingface", "files"];
/** Variants that are a tar archive of several files. */
const ARCHIVES = ["peft", "huggingface", "files"];
const POLL_MS = 500;
const OUTAGE_MS = 30_000;

type Download = {
  job_id: string;
  checkpoint_id: string | null;
  step: number | null;
  variant: string;
  status: "ready" | "preparing" | "failed";
  url: string | null;
  expires_at: string | null;
  size_bytes: number | null;
  sha256: string | null;
  error?: string | null;
};

export const model = command({
  summary: "Download the result of a job: the adapter, the merged model, or files for PEFT",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    variant: {
      type: "string",
      value: "KIND",
      choices: VARIANTS,
      doc: `${VARIANTS.join(", ")} (default: the variant that the job produced)`,
    },
    quantization: {
      type: "string",
      value: "TYPE",
      doc: "For merged, gguf and huggingface: F32, F16 or BF16; for merged and gguf also Q8_0, for gguf also Q4_K_M",
    },
    checkpoint: { type: "string", value: "ID", doc: "Checkpoint: an id, latest or best (default: latest)" },
    out: {
      type: "string",
      value: "FILE|DIR/",
      short: "o",
      doc: "File to write, or a new folder for peft, huggingface and files; without it, a download URL is printed",
    },
    force: { type: "boolean", doc: "Replace FILE if it exists" },
    json: JSON_FLAG,
  },
  examples: [
    "verk jobs model sums -o sums.gguf",
    "verk jobs model sums --variant merged --quantization Q8_0 -o m.gguf",
    "verk jobs model sums --variant huggingface -o sums/",
  ],
  exits: { 1: "failed: the job has no result yet", [INTERRUPTED]: "interrupted: FILE is unchanged" },
  async run({ variant, quantization, checkpoint, out, force, json, ...where }, target = "") {
    if (variant !== undefined && !VARIANTS.includes(variant))
      throw new UsageError(`--variant: expected ${VARIANTS.join(", ")}, not ${JSON.stringify(variant)}`);
    const sink = out === undefined ? undefined : sinkFor(out, variant, force);
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    const query = new URLSearchParams({
      ...(variant === undefined ? {} : { variant }),
      ...(quantization === undefined ? {} : { quantization }),
      ...(checkpoint === undefined ? {} : { checkpoint }),
    });
    return await interruptible(async (signal) => {
      const artifact = await untilReady(client, pathOf(job.id, `/model?${query}`), signal);
      if (out !== undefined && isFolderName(out)) mustBeArchive(out, artifact.variant);
      if (sink) await fetchTo(sink, artifact, signal);
      if (json) printJson(artifact);
      else if (!sink) print(artifact.url ?? "");
      note(
        `${artifact.variant}${artifact.step === null ? "" : ` of step ${artifact.step}`}, ${formatBytes(artifact.size_bytes ?? 0)}, sha256 ${artifact.sha256}.`,
      );
      return EXIT.ok;
    });
  },
});

function sinkFor(out: string, variant: string | undefined, force: boolean): Sink {
  if (isFolderName(out)) {
    if (variant !== undefined) mustBeArchive(out, variant);
    return toFolder(folderNamed("--out", out));
  }
  const path = fileNamed("--out", out);
  if (!force && existsSync(path) && !isStream(path))
    throw new UsageError(`--out: ${out} exists. Choose another file, or replace it with --force.`);
  return toFile(path);
}

function mustBeArchive(out: string, variant: string) {
  if (ARCHIVES.includes(variant)) return;
  throw new UsageError(
    `--out: ${out} is a folder, and the variant ${variant} is one file. Give the path of a file, or --variant huggingface.`,
  );
}

/** The server creates a merged file on the first request and answers `preparing` until it is ready. */
async function untilReady(client: Client, path: string, signal: AbortSignal): Promise<Download> {
  const progress = createProgress();
  const isPreparing = ({ status }: Download) => status === "preparing";
  const probe = async () => {
    const { body } = await client.call<Download>("GET", path, undefined, { signal });
    if (isPreparing(body)) progress.show("the server prepares the file");
    return body;
  };
  const polling = { signal, everyMs: POLL_MS, outageMs: OUTAGE_MS };
  const last = await pollUntil(probe, (each) => !isPreparing(each), polling).finally(progress.end);
  if (!last) throw signal.reason;
  if (last.status === "ready") return last;
  throw new UsageError(`The server could not prepare the file: ${last.error ?? "it gave no reason"}`, 1);
}

async function fetchTo(sink: Sink, { url, size_bytes, sha256 }: Download, signal: AbortSignal) {
  const progress = createProgress();
  try {
    const meter = createMeter(progress, "downloading", size_bytes ?? undefined);
    const response = await request(url ?? "", { signal, timeout: false });
    await sink(metered(bytesOf(response, signal), meter), sha256 ?? undefined);
  } finally {
    progress.end();
  }
}
