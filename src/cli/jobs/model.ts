import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { bytesOf, type Client, request } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { createMeter, metered } from "../transfer/meter.ts";
import { fileNamed, toFile } from "../transfer/sink.ts";
import { mustFind, pathOf } from "./find.ts";

const VARIANTS = ["adapter", "merged", "gguf", "peft", "files"];
const LOOK_MS = 500;

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
  summary: "Fetch what a job made: the adapter, the whole model, or files for PEFT",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    variant: { type: "string", value: "KIND", doc: `${VARIANTS.join(", ")} (default: what the job made)` },
    quantization: { type: "string", value: "TYPE", doc: "Such as F16 or Q8_0, of merged and gguf; Q4_K_M, of gguf" },
    checkpoint: { type: "string", value: "ID", doc: "Of this checkpoint: an id, latest or best (default: latest)" },
    out: { type: "string", value: "FILE", short: "o", doc: "Where to; without it the address is printed" },
    json: JSON_FLAG,
  },
  examples: [
    "verk jobs model sums -o sums.gguf",
    "verk jobs model sums --variant merged --quantization Q8_0 -o m.gguf",
  ],
  exits: { 1: "failed: there is nothing to fetch yet", [INTERRUPTED]: "interrupted: FILE is as it was" },
  async run({ variant, quantization, checkpoint, out, json, ...where }, target = "") {
    if (variant !== undefined && !VARIANTS.includes(variant))
      throw new UsageError(`--variant: expected ${VARIANTS.join(", ")}, not ${JSON.stringify(variant)}`);
    const path = out === undefined ? undefined : fileNamed("--out", out);
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    const query = new URLSearchParams({
      ...(variant === undefined ? {} : { variant }),
      ...(quantization === undefined ? {} : { quantization }),
      ...(checkpoint === undefined ? {} : { checkpoint }),
    });
    return await interruptible(async (signal) => {
      const made = await untilReady(client, pathOf(job.id, `/model?${query}`), signal);
      if (path !== undefined) await fetchTo(path, made, signal);
      if (json) printJson(made);
      else if (path === undefined) print(made.url ?? "");
      note(
        `${made.variant}${made.step === null ? "" : ` of step ${made.step}`}, ${formatBytes(made.size_bytes ?? 0)}, sha256 ${made.sha256}.`,
      );
      return EXIT.ok;
    });
  },
});

/** A merged file is made when it is first asked for. */
async function untilReady(client: Client, path: string, signal: AbortSignal): Promise<Download> {
  const progress = createProgress();
  try {
    for (;;) {
      const { body } = await client.call<Download>("GET", path, undefined, { signal });
      if (body.status === "ready") return body;
      if (body.status === "failed")
        throw new UsageError(`It could not be made: ${body.error ?? "no reason is told"}`, 1);
      progress.show("the server makes the file");
      await Bun.sleep(LOOK_MS);
      signal.throwIfAborted();
    }
  } finally {
    progress.end();
  }
}

async function fetchTo(path: string, { url, size_bytes, sha256 }: Download, signal: AbortSignal) {
  const progress = createProgress();
  try {
    const meter = createMeter(progress, "fetching", size_bytes ?? undefined);
    const response = await request(url ?? "", { signal, timeout: false });
    await toFile(path)(metered(bytesOf(response, signal), meter), sha256 ?? undefined);
  } finally {
    progress.end();
  }
}
