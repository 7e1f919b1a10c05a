import { eq } from "drizzle-orm";
import { transition } from "../../src/events/lifecycle.ts";
import { newId } from "../../src/lib/ids.ts";
import { write } from "../../src/platform/db/db.ts";
import { UNCOUNTED } from "../../src/platform/files.ts";
import { type Action, machine } from "../../src/resources/training/training_jobs/machine.ts";
import { trainingExports, trainingJobs } from "../../src/resources/training/training_jobs/table.ts";
import { tarGz } from "../archives.ts";
import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const PATH = "/v1/training_jobs";

/** A job that needs neither model nor rows. */
const request = async (app: TestApp) => {
  const form = new FormData();
  form.set("file", new Blob([tarGz({ name: "main.sh", content: "true" })]), "code.tar.gz");
  const { body } = await app.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  return { method: "custom", code_artifact_id: body.id, command: "sh main.sh" };
};
const job = async (app: TestApp) => {
  const { body } = await app.call("POST", PATH, await request(app));
  return { id: body.id as string };
};
const moved = async (app: TestApp, ...actions: Action[]) => {
  const made = await job(app);
  const now = app.ctx.clock.now();
  write(app.ctx.db, (tx) => {
    for (const action of actions) transition(tx, machine, action, { id: made.id, now });
  });
  return made;
};
const cancelled = async (app: TestApp) => {
  const made = await job(app);
  await app.call("POST", `${PATH}/${made.id}/cancel`);
  return made;
};
const stored = async (app: TestApp, key: string) => {
  await app.ctx.storage.put(key, [new TextEncoder().encode("text")], { meter: UNCOUNTED });
  return { storageKey: key, sizeBytes: 4, sha256: new Bun.CryptoHasher("sha256").update("text").digest("hex") };
};
const logged = async (app: TestApp) => {
  const made = await cancelled(app);
  const { storageKey } = await stored(app, `jobs/${made.id}.log`);
  write(app.ctx.db, (tx) =>
    tx.update(trainingJobs).set({ logKey: storageKey }).where(eq(trainingJobs.id, made.id)).run(),
  );
  return made;
};
const exported = async (app: TestApp) => {
  const { id } = await cancelled(app);
  const file = await stored(app, `jobs/${id}.tar`);
  const of = { id: newId("exp"), jobId: id, workspaceId: app.workspaceA, checkpointId: id };
  const made = { variant: "files", quantization: "", status: "ready", fileName: "output.tar", modelId: null } as const;
  write(app.ctx.db, (tx) =>
    tx
      .insert(trainingExports)
      .values({ ...of, ...made, ...file, error: null, createdAt: 1, updatedAt: 1 })
      .run(),
  );
  return { id };
};
const address = async (app: TestApp) => {
  const { id } = await exported(app);
  const { body } = await app.call("GET", `${PATH}/${id}/model`);
  const { pathname, search } = new URL(body.url);
  return { id, export: pathname.split("/").at(-1) ?? "", "?": search };
};

export const JOBS: Step[] = [
  { operation: `POST ${PATH}`, make: request },
  { operation: `POST ${PATH}/validate`, make: request },
  { operation: `GET ${PATH}` },
  { operation: `GET ${PATH}/{id}`, own: job },
  {
    operation: `PATCH ${PATH}/{id}`,
    own: job,
    make: async () => ({ tags: ["first"], notes: "a note", group: "sums" }),
  },
  { operation: `POST ${PATH}/{id}/cancel`, own: job },
  { operation: `POST ${PATH}/{id}/pause`, own: job },
  { operation: `POST ${PATH}/{id}/resume`, own: (app) => moved(app, "pause") },
  { operation: `POST ${PATH}/{id}/publish`, own: job },
  { operation: `DELETE ${PATH}/{id}/publish`, own: job },
  { operation: `GET ${PATH}/{id}/events`, own: job },
  { operation: `GET ${PATH}/{id}/metrics`, own: job },
  { operation: `GET ${PATH}/{id}/system`, own: job },
  { operation: `GET ${PATH}/{id}/samples`, own: job },
  { operation: `GET ${PATH}/{id}/checkpoints`, own: job },
  { operation: `GET ${PATH}/{id}/logs`, own: cancelled, bytes: true },
  { operation: `GET ${PATH}/{id}/logs/full`, own: logged, bytes: true },
  { operation: `GET ${PATH}/{id}/model`, own: exported },
  { operation: `GET ${PATH}/{id}/exports/{export}`, own: address, bytes: true, shared: true },
  { operation: `DELETE ${PATH}/{id}`, own: cancelled },
];

/** Runs the loops that move jobs on. */
export async function runJobs(app: TestApp) {
  await moved(app, "provision", "run", "requeue", "provision", "run", "complete");
  await moved(app, "provision", "run", "cancel", "drop");
  await moved(app, "provision", "fail");
}
