/** The datasets, rewards, resolver and code of a new job, from files or from the server. */
import { UsageError } from "../../lib/errors.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { allDatasets, mustFind } from "../datasets/find.ts";
import { labelOfFile, sendRows } from "../datasets/push.ts";
import { wholeId } from "../lists.ts";
import { count, note } from "../output.ts";
import { createProgress } from "../progress.ts";
import { isCodeName, isFile, readCode } from "../rewards/input.ts";
import { formOf } from "../transfer/form.ts";
import { noFile, openSource } from "../transfer/source.ts";
import type { Body, Inputs } from "./request.ts";
import { type Reward, rewardFields } from "./rewards.ts";

/** Reads the code of a data resolver. Text that is no file names a stored one. */
export async function resolverFields(path: string | undefined): Promise<Body> {
  if (path === undefined) return {};
  if (!isFile(path) && !isCodeName(path)) return { data_resolver: path };
  const { source, language } = await readCode(path, undefined);
  return { data_resolver_source: source, data_resolver_language: language };
}

type Uploads = Pick<Inputs, "datasets" | "code"> & { rewards: readonly Reward[] };

/** Uploads what is on this machine. Returns the fields of the request that name it. */
export async function uploadInputs(
  client: Client,
  { rewards, datasets, code }: Uploads,
  signal: AbortSignal,
): Promise<Body> {
  const fields = await rewardFields(client, rewards);
  for (const { field, text, from } of datasets) fields[field] = await datasetOf(client, text, from, signal);
  if (code !== undefined) fields["code_artifact_id"] = await codeOf(client, code, signal);
  return fields;
}

/**
 * Uploads a file; otherwise reads a dataset id or name, which may end with `@snap-3` or `@latest`. `from`: the flag or
 * the file that names it.
 */
export async function datasetOf(client: Client, text: string, from: string, signal: AbortSignal): Promise<string> {
  if (isFile(text)) return await upload(client, text, signal);
  if (/\.(jsonl|ndjson|json|csv|tsv|parquet)$/i.test(text) || text.includes("/"))
    throw new UsageError(noFile(from, text), EXIT.failed);
  const [, name = text, snapshot = ""] = /^(.*?)(@.+)?$/s.exec(text) ?? [];
  const id = name.startsWith("ds_")
    ? await wholeId(name, () => allDatasets(client))
    : (await mustFind(client, name)).id;
  return `${id}${snapshot}`;
}

async function upload(client: Client, path: string, signal: AbortSignal): Promise<string> {
  const source = await openSource(path);
  const progress = createProgress();
  try {
    const label = labelOfFile(source.name || "standard input");
    const { body } = await sendRows(client, { label, source, progress, signal });
    progress.end();
    note(`${path} is uploaded as dataset ${body.id} (${count(body.num_rows ?? 0, "row")}).`);
    return body.id;
  } finally {
    progress.end();
    await source.close();
  }
}

/** Uploads an archive of code; otherwise the text is the id of an artifact. */
async function codeOf(client: Client, text: string, signal: AbortSignal): Promise<string> {
  if (!isFile(text)) {
    if (/\.(tar\.gz|tgz|zip)$/i.test(text)) throw new UsageError(`--code: there is no file ${text}`, EXIT.failed);
    return text;
  }
  const source = await openSource(text);
  try {
    const fields = { name: source.name.replace(/\.(tar\.gz|tgz|zip)$/i, "") };
    const { headers, body } = formOf({ fields, file: source }, source.chunks());
    const { body: artifact } = await client.call<{ id: string }>("POST", "/v1/code_artifacts", undefined, {
      headers,
      raw: body,
      signal,
    });
    note(`${text} is uploaded as code artifact ${artifact.id}.`);
    return artifact.id;
  } finally {
    await source.close();
  }
}
