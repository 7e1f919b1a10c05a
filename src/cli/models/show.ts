import { formatBytes } from "../../lib/bytes.ts";
import type { Model } from "../../resources/serving/models/schema.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../args.ts";
import { columns, plain, print, printJson } from "../output.ts";

/** Models are read from the data directory, with or without a running server. */
export const MODEL_FLAGS = {
  data: DATA_FLAG,
  config: CONFIG_FLAG,
  workspace: { type: "string", value: "NAME", doc: 'Workspace that sees the model (default "default")' },
  json: JSON_FLAG,
} as const;

export const show = command({
  summary: "Show a model: kind, base model, size, context length, origin",
  takes: ["model"],
  flags: MODEL_FLAGS,
  examples: ["verk models show verk-tiny"],
  exits: { 1: "failed: there is no such model" },
  async run({ json, ...where }, name = "") {
    const { inWorkspace, models, presentModel } = await import("../offline.ts");
    const model = await inWorkspace(where, (ctx, { id }) => presentModel(models.mustGet(ctx, id, name)));
    if (json) printJson(model);
    else for (const line of columns(factsOf(model))) print(plain(line));
    return EXIT.ok;
  },
});

function factsOf(model: Model): [string, string][] {
  const facts: [string, string | null][] = [
    ["name", model.name],
    ["id", model.id],
    ["status", model.error === null ? model.status : `${model.status}: ${model.error}`],
    ["kind", model.type],
    ["base model", model.base_model],
    ["architecture", model.architecture],
    ["parameters", model.parameters === null ? null : countOf(model.parameters)],
    ["type", model.quantization],
    ["context length", model.context_length === null ? null : `${model.context_length} tokens`],
    ["chat template", model.has_chat_template === null ? null : model.has_chat_template ? "yes" : "no"],
    ["size", model.size_bytes === null ? null : formatBytes(model.size_bytes)],
    ["sha256", model.sha256],
    ["source", model.source],
    ["training job", model.job_id],
    ["checkpoint", model.checkpoint_id],
    ["file of the hub", model.file],
    ["created", model.created_at],
  ];
  return facts.filter((fact): fact is [string, string] => fact[1] !== null);
}

const UNITS = ["", "K", "M", "B", "T"];
/** Formats a number of parameters: `0.5B`. */
export function countOf(parameters: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, parameters)) / 3));
  return `${Number((parameters / 1000 ** power).toPrecision(3))}${UNITS[power]}`;
}
