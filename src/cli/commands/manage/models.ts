import { resolve } from "node:path";
import type { Ctx } from "../../../context.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import { connect } from "../../connect.ts";
import { INTERRUPTED } from "../../interrupt.ts";
import { exportModel } from "../../models/export.ts";
import { pushModel } from "../../models/push.ts";
import { quantize, rename } from "../../models/quantize.ts";
import { countOf, MODEL_FLAGS, show } from "../../models/show.ts";
import { endingOf, followModel } from "../../models/wait.ts";
import { note, print, printJson, printList, printResult } from "../../output.ts";
import { createProgress } from "../../progress.ts";
import { settingsOf } from "../../settings.ts";
import { importFile, importFolder } from "../../transfer/import_model.ts";

const WORKSPACE = {
  type: "string",
  value: "NAME",
  doc: 'Workspace whose own models are also shown (default "default")',
} as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG } as const;

const list = command({
  summary: "List the models, newest first",
  flags: { ...WHERE, workspace: WORKSPACE, json: JSON_FLAG },
  examples: ["verk models list", "verk models list --json"],
  async run({ json, ...where }) {
    const { allOf, inWorkspace, models: registry } = await import("../../offline.ts");
    const all = await inWorkspace(where, (ctx, { id }) => allOf((query) => registry.list(ctx, id, query)));
    printList(json, all, {
      columns: {
        NAME: ({ name }) => name,
        STATUS: ({ status }) => status,
        KIND: ({ type }) => type ?? "-",
        BASE: ({ base_model }) => base_model ?? "-",
        ARCHITECTURE: ({ architecture }) => architecture ?? "-",
        PARAMETERS: ({ parameters }) => (parameters === null ? "-" : countOf(parameters)),
        TYPE: ({ quantization }) => quantization ?? "-",
        SIZE: ({ size_bytes }) => (size_bytes === null ? "-" : formatBytes(size_bytes)),
        "": ({ error }) => error ?? "",
      },
      empty:
        "No models. `verk serve` adds verk-tiny, `verk models import PATH` imports a GGUF file or a Hugging Face folder.",
    });
    return EXIT.ok;
  },
});

const importModel = command({
  summary:
    "Import a GGUF file, also in parts, or a Hugging Face folder into the models folder; works with and without a running server",
  takes: ["path"],
  flags: {
    ...WHERE,
    name: { type: "string", value: "NAME", doc: "Name of the model (default: the name of the file or folder)" },
    quantize: {
      type: "string",
      value: "TYPE",
      choices: ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M"],
      doc: "For a folder: convert its weights to Q8_0, Q6_K, Q5_K_M or Q4_K_M (default: keep their precision)",
    },
    base: {
      type: "string",
      value: "NAME",
      doc: "Base model of an adapter (default: the only model that fits it)",
    },
    mmproj: {
      type: "string",
      value: "FILE",
      doc: "The model's projector for images (default: the one in the folder, if PATH is a folder with one)",
    },
    move: { type: "boolean", doc: "Move the file instead of copying it" },
    replace: { type: "boolean", doc: "Replace a model with the same name" },
    json: JSON_FLAG,
  },
  examples: [
    "verk models import ./qwen2.5-0.5b-instruct-q8_0.gguf",
    "verk models import ./Qwen3-0.6B --quantize Q4_K_M",
    "verk models import ./m-00001-of-00003.gguf",
    "verk models import m.gguf --name team/m --move",
    "verk models import llava.gguf --mmproj mmproj-llava.gguf",
  ],
  exits: { 1: "failed: the file cannot be used, or the name is taken" },
  async run({ name, quantize, base, mmproj, move, replace, json, ...where }, file = "") {
    const { baseIn, checkpointAt, imports, offline, presentModel, projectors, registerImport } = await import(
      "../../offline.ts"
    );
    const progress = createProgress();
    try {
      const { model: path, projector } = await projectors.ggufsAt(resolve(file));
      const checkpoint = await checkpointAt(path);
      const placing = { name: imports.nameFor(checkpoint?.name ?? path, name), move, replace };
      const images = mmproj === undefined ? projector : resolve(mmproj);
      const importing = { where, base, progress, projector: images, ...placing };
      const imported = checkpoint
        ? await importFolder(checkpoint, importing, quantize)
        : await importFile(path, importing, quantize);
      progress.end();
      const register = (ctx: Ctx) =>
        registerImport(ctx, imported.copy, imported.shape, baseIn(ctx, imported.shape, base));
      const { row, fitting } = await offline(settingsOf(where), register, { create: true });
      const model = presentModel(row);
      const remark = `${describe(model)}. ${nextStep(model, file, fitting)}`;
      printResult(json, model, { result: model.name, remark });
      return EXIT.ok;
    } finally {
      progress.end();
    }
  },
});

const pull = command({
  summary: "Download a model from the hub to the server",
  takes: ["name"],
  flags: {
    ...SERVER_FLAGS,
    "no-wait": { type: "boolean", doc: "Return at once instead of waiting for the download" },
    json: JSON_FLAG,
  },
  examples: [
    "verk models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    "verk models pull owner/repo:Q8_0",
    "verk models pull Qwen/Qwen3-0.6B:Q4_K_M",
  ],
  exits: {
    1: "failed: the model could not be downloaded",
    [INTERRUPTED]: "interrupted: the server continues the download",
  },
  async run({ json, "no-wait": noWait, ...where }, name = "") {
    const { client } = await connect(where);
    const { body } = await client.call<Model>("POST", "/v1/models/pull", { name });
    const { model, isInterrupted } = await followModel(client, body, { verb: "downloading", wait: !noWait });
    if (json) printJson(model);
    else if (model.status === "ready") {
      print(model.name);
      note(`${describe(model)}.`);
    } else note(`verk: ${model.name} ${endingOf(model.status)}${model.error ? `: ${model.error}` : ""}`);
    if (isInterrupted) return INTERRUPTED;
    return model.status === "failed" ? EXIT.failed : EXIT.ok;
  },
});

const remove = command({
  summary: "Delete a model with its file; works with and without a running server",
  takes: ["model"],
  flags: MODEL_FLAGS,
  examples: ["verk models delete team/old-model"],
  exits: { 1: "failed: there is no such model, it is built in, or a deployment, a job or an adapter uses it" },
  async run({ json, ...where }, name = "") {
    const { audited, inWorkspace, models, removeModel } = await import("../../offline.ts");
    const model = await inWorkspace(where, (ctx, { id }) => {
      const row = models.mustGet(ctx, id, name);
      removeModel(ctx, id, name);
      audited(ctx, "verk models delete", id, row.id);
      return { id: row.id, name: row.name };
    });
    const remark = `${model.name} (${model.id}) is deleted.`;
    printResult(json, { id: model.id, object: "model", deleted: true }, { remark });
    return EXIT.ok;
  },
});

export const models: Group = {
  summary: "Models on this machine",
  subcommands: {
    list,
    show,
    import: importModel,
    export: exportModel,
    pull,
    push: pushModel,
    quantize,
    rename,
    delete: remove,
  },
};

/** The next step after an import. An adapter needs its base model first. */
function nextStep({ name, type, base_model: base }: Model, file: string, fitting: string[]): string {
  const serve = `Serve it with \`verk deploy ${name}\`.`;
  if (type !== "adapter") return serve;
  if (base !== null) return `It is an adapter of ${base}. ${serve}`;
  if (fitting.length === 0)
    return `It is an adapter, and its base model is not here. Import or pull the base model, then \`verk deploy ${name}\`.`;
  return `It is an adapter, and several models fit it: ${fitting.slice(0, 5).join(", ")}. Say which: \`verk models import ${file} --name ${name} --replace --base NAME\`.`;
}

const describe = (model: Model) =>
  [model.architecture, countOf(model.parameters ?? 0), model.quantization, formatBytes(model.size_bytes ?? 0)].join(
    ", ",
  );
