import { command, EXIT } from "../args.ts";
import { printResult } from "../output.ts";
import { MODEL_FLAGS } from "./show.ts";

export const remove = command({
  summary: "Delete a model with its file; works with and without a running server",
  takes: ["model"],
  flags: MODEL_FLAGS,
  examples: ["verk models delete team/old-model"],
  exits: { 1: "failed: there is no such model, it is built in, or a deployment, a job or an adapter uses it" },
  async run({ json, ...where }, name = "") {
    const { audited, inWorkspace, models, removeModel } = await import("../offline.ts");
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
