import { formatBytes } from "../../lib/bytes.ts";
import { QUANTIZATIONS } from "../../lib/checkpoints/mix.ts";
import type { Model } from "../../resources/serving/models/schema.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note, print, printJson, printResult } from "../output.ts";
import { endingOf, followModel } from "./wait.ts";

const at = (model: string, rest = "") => `/v1/models/${encodeURIComponent(model)}${rest}`;

export const quantize = command({
  summary: "Make a quantized copy of a model",
  takes: ["model", "type"],
  flags: {
    ...SERVER_FLAGS,
    name: { type: "string", value: "NAME", doc: "Name of the copy (default: the name of the model with the type)" },
    "no-wait": { type: "boolean", doc: "Return at once instead of waiting for the copy" },
    json: JSON_FLAG,
  },
  fields: { quantization: "TYPE", name: "--name" },
  examples: ["verk models quantize my-model Q4_K_M", "verk models quantize verk-tiny Q8_0 --name tiny-q8"],
  exits: {
    1: "failed: the model could not be quantized",
    [INTERRUPTED]: "interrupted: the server continues the work",
  },
  async run({ json, name, "no-wait": noWait, ...where }, model = "", type = "") {
    const { client } = await connect(where);
    const quantization = QUANTIZATIONS.find((each) => each === type.toUpperCase()) ?? type;
    const { body } = await client.call<Model>("POST", at(model, "/quantize"), { quantization, name });
    const made = await followModel(client, body, { verb: "quantizing", wait: !noWait });
    if (json) printJson(made.model);
    else if (made.model.status === "ready") {
      print(made.model.name);
      note(`${made.model.quantization}, ${formatBytes(made.model.size_bytes ?? 0)}.`);
    } else
      note(`verk: ${made.model.name} ${endingOf(made.model.status)}${made.model.error ? `: ${made.model.error}` : ""}`);
    if (made.isInterrupted) return INTERRUPTED;
    return made.model.status === "failed" ? EXIT.failed : EXIT.ok;
  },
});

export const rename = command({
  summary: "Rename a model",
  takes: ["model", "name"],
  flags: { ...SERVER_FLAGS, json: JSON_FLAG },
  fields: { name: "NAME" },
  examples: ["verk models rename my-model my-first-model"],
  exits: { 1: "failed: there is no such model, or the name is taken" },
  async run({ json, ...where }, model = "", name = "") {
    const { client } = await connect(where);
    const { body } = await client.call<Model>("PATCH", at(model), { name });
    printResult(json, body, { result: body.name, remark: `${model} is now ${body.name}.` });
    return EXIT.ok;
  },
});
