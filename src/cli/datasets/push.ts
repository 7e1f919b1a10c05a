import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { FORMATS } from "../../lib/rows/format.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { labelOf } from "../commands/manage/keys.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { count, note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { formOf } from "../transfer/form.ts";
import { createMeter, metered } from "../transfer/meter.ts";
import { openSource, type Source } from "../transfer/source.ts";
import type { Dataset } from "./find.ts";
import { MAP_FLAG, mapOf, SHAPE_FLAG } from "./reading_flags.ts";

export const push = command({
  summary: "Upload a file of rows as a dataset; the same content is stored once",
  takes: ["file"],
  flags: {
    ...SERVER_FLAGS,
    name: { type: "string", value: "NAME", doc: "Name of the dataset (default: the file's name without its ending)" },
    map: MAP_FLAG,
    shape: SHAPE_FLAG,
    format: {
      type: "string",
      value: "FORMAT",
      choices: FORMATS,
      doc: `Format of the dataset (default: by the rows): ${FORMATS.join(", ")}`,
    },
    json: JSON_FLAG,
  },
  examples: [
    "verk datasets push support.jsonl",
    "verk datasets push alpaca.csv",
    "verk datasets push faq.parquet --map question=prompt --map answer=completion",
    "zcat support.jsonl.gz | verk datasets push - --name support",
  ],
  exits: {
    1: "failed: a line is not a valid row (the message gives its number), or the server cannot be reached; nothing was stored",
    [INTERRUPTED]: "interrupted: nothing was stored",
  },
  async run({ name, json, map, shape, format, ...where }, file = "") {
    const fields = readingOf({ map, shape, format });
    const source = await openSource(file);
    const progress = createProgress();
    try {
      const label = labelOf("--name", name ?? nameOf(source));
      const { client } = await connect(where);
      return await interruptible(async (signal) => {
        const { status, body } = await sendRows(client, { label, fields, source, progress, signal });
        progress.end();
        if (json) printJson(body);
        else {
          print(body.id);
          if (body.detected) note(body.detected.summary);
          note(summaryOf(body, status === 200));
        }
        return EXIT.ok;
      });
    } finally {
      progress.end();
      await source.close();
    }
  },
});

function nameOf({ name }: Source): string {
  if (name === "") throw new UsageError("datasets push: standard input has no name. Give one with --name.");
  return labelOfFile(name);
}

export const labelOfFile = (name: string) =>
  name.replace(/\.(gz|gzip|zst|zstd)$/i, "").replace(/\.(jsonl|ndjson|json|csv|tsv|parquet|pq)$/i, "");

type Reading = { map: readonly string[]; shape: string | undefined; format: string | undefined };

/** The form fields that say how the file is to be read. */
function readingOf({ map, shape, format }: Reading): Record<string, string> {
  mapOf(map); // checked here, before the file is sent
  const pairs = map.join(",");
  return {
    ...(pairs === "" ? {} : { map: pairs }),
    ...(shape === undefined ? {} : { shape }),
    ...(format === undefined ? {} : { format }),
  };
}

type Sending = {
  label: string;
  fields?: Record<string, string>;
  source: Source;
  progress: ReturnType<typeof createProgress>;
  signal: AbortSignal;
};

/** Status 200 means that the same content was uploaded before. */
export async function sendRows(client: Client, { label, fields = {}, source, progress, signal }: Sending) {
  const meter = createMeter(progress, `uploading ${label}`, source.size);
  let [broken, answered]: [unknown, boolean] = [undefined, false];
  async function* chunks() {
    try {
      yield* metered(source.chunks(), meter);
      if (!answered) progress.show("checking");
    } catch (error) {
      broken = error;
      throw error;
    }
  }
  const { headers, body } = formOf({ fields: { name: label, ...fields }, file: source }, chunks());
  try {
    return await client.call<Dataset>("POST", "/v1/datasets", undefined, { headers, raw: body, signal });
  } catch (error) {
    // The file could not be read.
    throw broken !== undefined && error instanceof ApiError && error.status === 0 ? broken : error;
  } finally {
    answered = true;
  }
}

function summaryOf({ name, num_rows, size_bytes, format, id }: Dataset, existed: boolean): string {
  const facts = `${count(num_rows ?? 0, "row")}, format ${format}, ${formatBytes(size_bytes ?? 0)}`;
  return existed ? `This content was uploaded before as ${name} (${id}): ${facts}.` : `${name}: ${facts}.`;
}
