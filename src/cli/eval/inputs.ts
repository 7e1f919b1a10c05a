/** The targets and evaluators of `verk eval`, from names and files. */
import { UsageError } from "../../lib/errors.ts";
import type { Evaluator } from "../../resources/quality/evaluators/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { allDeployments } from "../deployments.ts";
import { allJobs } from "../jobs/find.ts";
import { onlyOne, wholeId } from "../lists.ts";
import { note } from "../output.ts";
import { isFile, readCode } from "../rewards/input.ts";

export type TargetBody = { type: string } & Record<string, unknown>;

/** A deployment, a job (`sums`, `job_…` or `job_…@ckpt_…`), or a base model. An active deployment of the name goes first. */
export async function targetOf(client: Client, text: string): Promise<TargetBody> {
  if (text.startsWith("dep_"))
    return { type: "deployment", deployment: await wholeId(text, () => allDeployments(client)) };
  const [name = "", checkpoint = null] = text.split(/@(?=ckpt_)/);
  if (name.startsWith("job_"))
    return { type: "checkpoint", job: await wholeId(name, () => allJobs(client)), checkpoint };
  const isActive = ({ status }: { status: string }) => status !== "stopped" && status !== "failed";
  if ((await allDeployments(client)).some((each) => each.name === text && isActive(each)))
    return { type: "deployment", deployment: text };
  const named = (await allJobs(client)).filter((each) => each.output_name === name && each.status === "completed");
  const job = onlyOne(named, "completed jobs", name);
  return job ? { type: "checkpoint", job: job.id, checkpoint, name: text } : { type: "model", model: text };
}

/** The id of an evaluator. A file of code becomes an evaluator first; the same code is stored once. */
export async function evaluatorOf(client: Client, text: string): Promise<string> {
  if (!isFile(text)) {
    if (/\.(py|ts|js|mjs)$/i.test(text)) throw new UsageError(`--evaluator: there is no file ${text}`, EXIT.failed);
    return text;
  }
  const { name, source, language } = await readCode(text, undefined);
  const config = { source, language };
  const { status, body } = await client.call<Evaluator>("POST", "/v1/evaluators", { name, kind: "code", config });
  if (status === 201) note(`${text} is stored as evaluator ${body.name}@${body.version}.`);
  return body.id;
}
