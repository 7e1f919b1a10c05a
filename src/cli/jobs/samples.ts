import type { z } from "zod";
import { isRolled } from "../../lib/training/fields.ts";
import type { JobSample } from "../../resources/training/training_jobs/views/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { connect } from "../connect.ts";
import { count, note, plain, print, printJson } from "../output.ts";
import { mustFind, pathOf } from "./find.ts";
import { shortNumber } from "./view.ts";

type Sample = z.infer<typeof JobSample>;
type Page = { object: "list"; data: Sample[]; has_more: boolean };

export const samples = command({
  summary: "Show completions of a job with their rewards, of the latest step or of --step",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    step: { type: "string", value: "N", doc: "Step of the completions (default: the latest step that has some)" },
    limit: { type: "string", value: "N", doc: "At most this many, up to 100 (default 10)" },
    json: JSON_FLAG,
  },
  examples: ["verk jobs samples sums", "verk jobs samples sums --step 1 --limit 3"],
  exits: { 1: "failed: there is no such job" },
  async run({ json, step, limit = "10", ...where }, target = "") {
    const query = new URLSearchParams({ limit: String(wholeOf("limit", limit)) });
    if (step !== undefined) query.set("step", String(wholeOf("step", step)));
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    const { body } = await client.call<Page>("GET", pathOf(job.id, `/samples?${query}`));
    if (json) {
      printJson(body);
      return EXIT.ok;
    }
    if (body.data.length === 0) note(noneOf(job.output_name, job.method, step));
    for (const each of body.data) print(plain(`${sampleLines(each).join("\n")}\n`));
    if (body.has_more) note(`The step has more samples. Show up to 100 with --limit.`);
    return EXIT.ok;
  },
});

/** Only methods that draw completions have samples. */
const noneOf = (name: string, method: string, step: string | undefined) =>
  step === undefined
    ? `${name} has no samples${isRolled(method) ? " yet" : `: ${method} draws no completions`}.`
    : `${name} has no samples of step ${step}. Without --step the latest ones are shown.`;

/** A line with the figures, then the prompt and the completion, indented. */
function sampleLines(sample: Sample): string[] {
  const { step, reward, sub_rewards, advantage, tokens, truncated, error } = sample;
  const parts = Object.entries(sub_rewards);
  const each = parts.length < 2 ? "" : ` (${parts.map(([name, value]) => `${name} ${numberOf(value)}`).join(", ")})`;
  const head = [
    `step ${step}`,
    error ? `no reward: ${error}` : `reward ${numberOf(reward)}${each}`,
    ...(advantage === null ? [] : [`advantage ${numberOf(advantage)}`]),
    `${count(tokens, "token")}${truncated ? ", cut off" : ""}`,
  ];
  const indented = (text: string) => text.split("\n").map((line) => `    ${line}`);
  return [
    head.join(" · "),
    "  prompt:",
    ...indented(promptOf(sample.prompt)),
    "  completion:",
    ...indented(sample.completion),
  ];
}

const numberOf = (value: number | null) => (value === null ? "-" : shortNumber(value));

/** A prompt is a text or a list of messages. */
function promptOf(prompt: unknown): string {
  if (typeof prompt === "string") return prompt;
  if (!Array.isArray(prompt)) return JSON.stringify(prompt);
  return (prompt as { role?: unknown; content?: unknown }[])
    .map(({ role, content }) => `${String(role)}: ${typeof content === "string" ? content : JSON.stringify(content)}`)
    .join("\n");
}
