import { afterAll, beforeAll, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { models } from "../models/table.ts";
import { modelFor } from "./admission.ts";

let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp();
}, 60_000);
afterAll(() => app.close().then(app.remove));

const chosen = (model: string) => {
  try {
    return modelFor(app.ctx, app.workspaceA, { model, source: null, checkpoint: null } as unknown as Parameters<
      typeof modelFor
    >[2]).name;
  } catch (error) {
    if (error instanceof AppError) return error.message;
    throw error;
  }
};

test("an adapter without its base says what to do: pull it, or choose among those that fit", () => {
  const row = app.ctx.db.select().from(models).where(eq(models.name, "random")).get()!;
  const add = (name: string, more: object) =>
    app.ctx.db
      .insert(models)
      .values({ ...row, id: newId("mdl"), name, ...more })
      .run();
  const adapter = { shape: { ...row.shape!, type: "adapter" as const } };
  add("style", { ...adapter, baseModel: null });
  add("named", { ...adapter, baseModel: "acme/base" });
  app.ctx.db.delete(models).where(eq(models.id, row.id)).run();
  expect(chosen("style")).toContain("its base model is not on this server: pull or import");
  expect(chosen("named")).toContain("its base model (acme/base) is not on this server");
  add("first", {});
  add("second", {});
  expect(chosen("style")).toContain(
    "several models here fit it (first, second): say which with `verk deploy style --base NAME`",
  );
  expect(chosen("named")).toContain("its base model (acme/base) is not on this server");
  expect(chosen("first")).toBe("first");
});
