import { afterAll, beforeEach, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { testApp } from "../../../../test/harness.ts";
import { AppError } from "../../../lib/errors.ts";
import { mustFind } from "./served.ts";
import { type DeploymentRow, deployments } from "./table.ts";

const app = testApp();
afterAll(() => app.close().then(app.remove));
beforeEach(() => void app.ctx.db.delete(deployments).run());

async function deployed(name: string, status: DeploymentRow["status"], model = `owner/${name}`): Promise<string> {
  const { body } = await app.call("POST", "/v1/deployments", { model, name });
  app.ctx.db.update(deployments).set({ status }).where(eq(deployments.id, body.id)).run();
  return body.id;
}
const found = (model?: string) => {
  try {
    return mustFind(app.ctx, app.workspaceA, model).name;
  } catch (error) {
    if (error instanceof AppError) return `${error.code}: ${error.message}`;
    throw error;
  }
};

test("without a model the only one that serves is meant, or else the only active one", async () => {
  expect(found()).toStartWith("resource_not_found: model: is missing. No deployment is active");
  await deployed("a", "provisioning");
  expect(found()).toBe("a");
  await deployed("b", "serving");
  expect(found()).toBe("b");
  await deployed("c", "serving");
  expect(found()).toBe("schema: model: is missing, and several deployments run. Active deployments: a, b, c");
  await deployed("d", "stopped");
  expect(found()).toEndWith("Active deployments: a, b, c");
});

test("a model is found by name, id, adapter of a name, or as what one deployment serves", async () => {
  const id = await deployed("a", "serving", "owner/x");
  expect([found("a"), found(id), found("a:style"), found("owner/x"), found("owner/x:style")]).toEqual(
    Array(5).fill("a"),
  );
  await deployed("b", "serving", "owner/x");
  expect(found("owner/x")).toStartWith('resource_not_found: model: no active deployment is named "owner/x"');
  expect(found("aa")).toContain("Did you mean a? Active deployments: a, b");
  const other = await app.call("POST", "/v1/deployments", { model: "owner/y", name: "theirs" }, { key: app.keyB });
  expect(found(other.body.id)).toContain("no active deployment is named");
});

test("ten names are listed, and the others counted", async () => {
  for (let i = 0; i < 12; i++) await deployed(`n${String(i).padStart(2, "0")}`, "serving");
  expect(found("nothing-like-it")).toEndWith("n08, n09 and 2 more");
});
