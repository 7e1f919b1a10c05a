import { command, EXIT } from "../args.ts";
import { note, printJson } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { MODEL_FLAGS } from "./show.ts";

export const remove = command({
  summary: "Delete a model with its file; works with and without a running server",
  takes: ["model"],
  flags: MODEL_FLAGS,
  examples: ["verk models delete team/old-model"],
  exits: { 1: "failed: there is no such model, it is built in, or a deployment, a job or an adapter uses it" },
  async run({ workspace, json, ...where }, name = "") {
    const { audited, DEFAULT_WORKSPACE, models, mustFindWorkspace, offline, removeModel } = await import(
      "../offline.ts"
    );
    const deleted = await offline(settingsOf(where), (ctx) => {
      const { id } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      const { id: modelId, name: label } = models.mustGet(ctx, id, name);
      removeModel(ctx, id, name);
      audited(ctx, "verk models delete", id, modelId);
      return { id: modelId, name: label };
    });
    if (json) printJson({ id: deleted.id, object: "model", deleted: true });
    else note(`${deleted.name} (${deleted.id}) is deleted.`);
    return EXIT.ok;
  },
});
