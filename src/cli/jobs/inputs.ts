/** What a job is made of besides its settings: rows and reward code, from files or from what the server has. */
import { UsageError } from "../../lib/errors.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { mustFind } from "../datasets/find.ts";
import { labelOfFile, sendRows } from "../datasets/push.ts";
import { note } from "../output.ts";
import { createProgress } from "../progress.ts";
import { isFile, readCode } from "../rewards/input.ts";
import { openSource } from "../transfer/source.ts";
import { type Body, rewardOf } from "./request.ts";

/** A file is uploaded; else it is an id or a name, with `@snap-3` or `@latest` behind it where one is wanted. */
export async function datasetOf(client: Client, given: string, signal: AbortSignal): Promise<string> {
  if (isFile(given)) return await uploaded(client, given, signal);
  if (/\.(jsonl|ndjson|json)$/i.test(given) || given.includes("/"))
    throw new UsageError(`--dataset: there is no file ${given}`, EXIT.failed);
  const [, name = given, snapshot = ""] = /^(.*?)(@.+)?$/s.exec(given) ?? [];
  return name.startsWith("ds_") ? given : `${(await mustFind(client, name)).id}${snapshot}`;
}

async function uploaded(client: Client, path: string, signal: AbortSignal): Promise<string> {
  const source = await openSource(path);
  const progress = createProgress();
  try {
    const label = labelOfFile(source.name || "standard input");
    const { body } = await sendRows(client, { label, source, progress, signal });
    progress.end();
    note(`${path} is the dataset ${body.id}, ${body.num_rows} rows.`);
    return body.id;
  } finally {
    progress.end();
    await source.close();
  }
}

/** One file is sent with the job; names are ready rewards or functions of the server, with weights. */
export async function rewardFields(given: readonly string[]): Promise<Body> {
  const files = given.filter(isFile);
  const named = given.filter((each) => !isFile(each));
  const lost = named.find((each) => /\.(py|ts|js|mjs)$/i.test(each));
  if (lost !== undefined) throw new UsageError(`--reward: there is no file ${lost}`, EXIT.failed);
  const weighed = named.map(rewardOf).find(({ id }) => isFile(id));
  if (weighed)
    throw new UsageError(
      `--reward: ${weighed.id} is a file, which takes no weight: push it with \`verk rewards push\` and give its name`,
    );
  if (files.length > 1)
    throw new UsageError(
      "--reward: one file at most goes with a job: push the others with `verk rewards push` and name them",
    );
  const [file] = files;
  const code = file === undefined ? undefined : await readCode(file, undefined);
  return {
    ...(code ? { reward_source: code.source, reward_language: code.language } : {}),
    ...(named.length > 0 ? { reward_functions: named.map(rewardOf) } : {}),
  };
}

export async function readBody(path: string): Promise<Body> {
  const source = await openSource(path);
  try {
    const text = Buffer.concat(await Array.fromAsync(source.chunks())).toString("utf8");
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Body;
  } catch (error) {
    if (error instanceof SyntaxError) throw new UsageError(`--file: ${path} is no JSON: ${error.message}`);
    throw error;
  } finally {
    await source.close();
  }
  throw new UsageError(`--file: ${path} must hold one JSON object: the body of POST /v1/training_jobs`);
}
