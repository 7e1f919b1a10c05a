// tier: all (networks of the detectors)
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf, type DetectingApp, imageOf, manyDetecting } from "../../../../test/detection_kit.ts";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { until } from "../../../../test/harness.ts";
import { startReceiver } from "../../../../test/receiver.ts";
import { accountOf } from "../accounts.ts";
import { prune } from "../service.ts";
import { batchFile } from "./batches.ts";

const { open, closeAll } = manyDetecting();
afterEach(closeAll);

const PATH = "/api/detect/batch";
const LOOPS = ["detection.batches"] as const;
const send = async (app: DetectingApp, images: object[], more: object = {}) => {
  const { status, body } = await app.call("POST", PATH, { images, ...more });
  expect([status, body]).toMatchObject([202, { totalImages: images.length }]);
  return body.jobId as string;
};
const ended = (app: DetectingApp, id: string, status = "completed") =>
  until(`${id} to be ${status}`, async () => {
    const { body } = await app.call("GET", `${PATH}/${id}`);
    return body.status === status ? body : undefined;
  });
const resultsOf = async (app: DetectingApp, id: string, query = "") =>
  (await app.call("GET", `${PATH}/${id}/results${query}`)).body;

/** A batch of the other workspace, of one image, completes once `letGo` was called. */
async function anotherEnds(app: DetectingApp, letGo: () => void) {
  const { body } = await app.call("POST", PATH, { images: [{ image: imageOf() }] }, { key: app.keyB });
  letGo();
  await until("the other's end", async () => {
    const now = await app.call("GET", `${PATH}/${body.jobId}`, undefined, { key: app.keyB });
    return now.body.status === "completed";
  });
}

describe("a batch", () => {
  test("looks at each of its images, robustness included, and tells what it cannot look at", async () => {
    const app = open({ loops: LOOPS, flags: { "network.allow": ["127.0.0.1"], "detect.initial_credits": 50 } });
    const server = startReceiver(
      ({ path }) => new Response(path === "/a" ? new Uint8Array(bytesOf({ score: 0.1 })) : "no"),
    );
    const id = await send(
      app,
      [
        { id: "ai", image: imageOf({ score: 0.9 }) },
        { image: imageOf({ score: 0.5 }) },
        { id: "address", url: `${server.url}/a` },
        { id: "page", url: `${server.url}/b` },
        { id: "inside", url: "http://10.0.0.1/" },
        { id: "no base64", image: "****" },
        { id: "deadly", image: imageOf({ die: true }) },
        { id: "refused", image: imageOf({ refuse: { code: "INVALID_IMAGE", error: "cut off" } }) },
        { id: "failed", image: imageOf({ errors: { detector_v1: "no" } }) },
      ],
      { models: ["detector_v1"] },
    );
    const batch = await ended(app, id);
    expect(batch).toMatchObject({ totalImages: 9, successCount: 3, failureCount: 6 });
    const { results, hasMore } = await resultsOf(app, id);
    expect(hasMore).toBe(false);
    expect(
      results.map((each: { id: string; status: string; code: string | null }) => [each.id, each.code ?? each.status]),
    ).toEqual([
      ["ai", "success"],
      ["1", "success"],
      ["address", "success"],
      ["page", "UNSUPPORTED_FORMAT"],
      ["inside", "URL_NOT_ALLOWED"],
      ["no base64", "INVALID_IMAGE"],
      ["deadly", "INVALID_IMAGE"],
      ["refused", "INVALID_IMAGE"],
      ["failed", "ALL_MODELS_FAILED"],
    ]);
    expect(results[0].result).toMatchObject({ prediction: "ai", signals: { robustness: { flips: false } } });
    expect(Object.keys(results[0].result.model_results)).toEqual(["detector_v1"]);
    expect(accountOf(app.ctx, app.workspaceA)).toMatchObject({ creditsSpent: 3, monthRequests: 9 });
    expect(eventsOf(app, id)).toEqual(["detection_batch.created", "detection_batch.completed"]);
    await until("its file to go", () => !existsSync(batchFile(app.ctx, id)));
    await server.stop();
  }, 30_000);

  test("keeps metadata", async () => {
    const app = open();
    const metadata = { run: "7" };
    const id = await send(app, [{ image: imageOf() }], { metadata });
    expect((await app.call("GET", `${PATH}/${id}`)).body.metadata).toEqual(metadata);
    const bad = await app.call("POST", PATH, { images: [{ image: imageOf() }], metadata: { a: 1 } });
    expect(bad).toMatchObject({ status: 400, body: { error: expect.stringContaining("metadata.a") } });
  });

  test("an image that is known already costs nothing, and its result says so", async () => {
    const app = open({ loops: LOOPS, flags: { "detect.parallel": 2 } });
    const image = imageOf();
    const id = await send(app, [{ image }, { image }]);
    await ended(app, id);
    const { results } = await resultsOf(app, id);
    expect(results.map((each: { result: { cached: boolean } }) => each.result.cached)).toEqual([false, true]);
    expect(accountOf(app.ctx, app.workspaceA)).toMatchObject({ creditsSpent: 1, monthRequests: 2 });
  });

  test("its results come in pages, in the order they were sent", async () => {
    const app = open({ loops: LOOPS });
    const id = await send(
      app,
      Array.from({ length: 7 }, (_, i) => ({ id: `n${i}`, image: imageOf() })),
    );
    await ended(app, id);
    const seen: string[] = [];
    for (let after = ""; ; ) {
      const { results, hasMore } = await resultsOf(app, id, `?limit=3${after && `&after=${after}`}`);
      seen.push(...results.map((each: { id: string }) => each.id));
      after = seen.at(-1) ?? "";
      if (!hasMore) break;
    }
    expect(seen).toEqual(Array.from({ length: 7 }, (_, i) => `n${i}`));
    expect((await app.call("GET", `${PATH}/${id}/results?after=other`)).body.code).toBe("INVALID_CURSOR");
    expect((await app.call("GET", `${PATH}/${id}/results?limit=0`)).body.code).toBe("INVALID_REQUEST");
  });

  test("is cancelled: what was found stays, what is under way and to come is dropped", async () => {
    const app = open({ loops: LOOPS, flags: { "detect.parallel": 2 } });
    const gate = join(app.dir, "gate");
    const id = await send(app, [
      { image: imageOf() },
      ...Array.from({ length: 5 }, () => ({ image: imageOf({ gate }) })),
    ]);
    await until("the second to be under way", () => app.scored() === 2);
    const { body } = await app.call("POST", `${PATH}/${id}/cancel`);
    expect(body).toMatchObject({ status: "cancelled", successCount: 1 });
    writeFileSync(gate, "");
    await until("its file to go", () => !existsSync(batchFile(app.ctx, id)));
    const { results } = await resultsOf(app, id);
    expect(results.map((each: { status: string }) => each.status)).toEqual(["success", ...Array(5).fill("cancelled")]);
    expect(accountOf(app.ctx, app.workspaceA).creditsSpent).toBe(1);
    expect((await app.call("POST", `${PATH}/${id}/cancel`)).body.status).toBe("cancelled");
    const done = await send(app, [{ image: imageOf() }]);
    await ended(app, done);
    expect((await app.call("POST", `${PATH}/${done}/cancel`)).body.code).toBe("UNSUPPORTED_STATE");
  });

  test("goes on after a restart, and what was found before is not looked at again", async () => {
    const first = open({ loops: LOOPS, flags: { "detect.parallel": 2 } });
    const gate = join(first.dir, "gate");
    const images = [...Array.from({ length: 4 }, () => ({ image: imageOf() })), { image: imageOf({ gate }) }];
    const id = await send(first, images);
    await until("the last to be under way", () => first.scored() === 5);
    await first.close();
    writeFileSync(gate, "");
    const second = open({ dir: first.dir, loops: LOOPS });
    const batch = await until("its end", async () => {
      const { body } = await second.call("GET", `${PATH}/${id}`, undefined, { key: first.keyA });
      return body.status === "completed" && body;
    });
    expect(batch.successCount).toBe(5);
    expect(second.scored()).toBe(6);
    expect(accountOf(second.ctx, first.workspaceA)).toMatchObject({ creditsSpent: 5, monthRequests: 5 });
  });

  test("waits for a detector that cannot be started", async () => {
    const app = open({ loops: LOOPS, lives: [{ fail: "crash" }, { fail: "crash" }, {}] });
    const id = await send(app, [{ image: imageOf() }, { image: imageOf() }]);
    expect((await ended(app, id)).successCount).toBe(2);
  }, 20_000);

  test("sent again with the same Idempotency-Key is the same batch, paid once; the audit log names what was made", async () => {
    const app = open({ loops: LOOPS, flags: { "detect.initial_credits": 3 } });
    const images = [{ image: imageOf() }, { image: imageOf() }];
    const again = (json: object) => app.call("POST", PATH, json, { headers: { "idempotency-key": "k" } });
    const [first, second] = await Promise.all([again({ images }), again({ images })]);
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.body.jobId).toBe(first.body.jobId);
    await ended(app, first.body.jobId);
    expect((await again({ images })).body).toEqual(first.body);
    const other = await again({ images: images.slice(1) });
    expect([other.status, other.body.code]).toEqual([409, "IDEMPOTENCY_MISMATCH"]);
    expect(accountOf(app.ctx, app.workspaceA).creditsSpent).toBe(2);
    await until("no file to be left", () => readdirSync(join(app.dir, "detection")).length === 0);
    await app.call("POST", "/api/detect", { image: imageOf() });
    const log = app.ctx.db.$client.query<{ made: string }, []>("SELECT made FROM audit_log WHERE made IS NOT NULL");
    expect(new Set(log.all().map(({ made }) => made))).toEqual(new Set([first.body.jobId]));
  });

  test("of nothing but bad images is over at once", async () => {
    const app = open();
    const { body } = await app.call("POST", PATH, { images: [{ image: "*" }, { id: "x", image: "" }] });
    expect(body).toMatchObject({ status: "completed", failureCount: 2 });
  });

  test("one workspace does not keep another waiting", async () => {
    const app = open({ loops: LOOPS, flags: { "detect.parallel": 4 } });
    const gate = join(app.dir, "gate");
    const many = await send(
      app,
      Array.from({ length: 20 }, () => ({ image: imageOf({ gate }) })),
    );
    await until("both places to be taken", () => app.scored() === 2);
    await anotherEnds(app, () => writeFileSync(gate, ""));
    const { body } = await app.call("GET", `${PATH}/${many}`);
    expect(body.successCount).toBeLessThan(20);
    await ended(app, many);
  });

  test("nor does it with however many batches", async () => {
    const app = open({ loops: LOOPS, flags: { "detect.parallel": 4 } });
    const [gate, never] = [join(app.dir, "gate"), join(app.dir, "never")];
    await send(app, [{ image: imageOf({ gate }) }]);
    for (let i = 0; i < 101; i++) await send(app, [{ image: imageOf({ gate: never }) }]);
    await until("both places to be taken", () => app.scored() === 2);
    await anotherEnds(app, () => writeFileSync(gate, ""));
  });

  test("old results go, and the batch says no more than that it was", async () => {
    const app = open({ loops: LOOPS });
    const id = await send(app, [{ image: imageOf() }]);
    await ended(app, id);
    const later = { ...app.ctx.clock, now: () => Date.now() + 31 * 86_400_000 };
    await prune({ ...app.ctx, clock: later });
    expect((await resultsOf(app, id)).results).toEqual([]);
    expect((await app.call("GET", `${PATH}/${id}`)).body.successCount).toBe(1);
  });

  test("files of batches that never came about are removed", async () => {
    const app = open();
    await send(app, [{ image: imageOf() }]);
    const dir = join(app.dir, "detection");
    writeFileSync(join(dir, "bat_00000000000000000000000000.images"), "left");
    const { runBatches } = await import("./runner.ts");
    await runBatches(app.ctx, new AbortController().signal);
    expect(readdirSync(dir)).toEqual([]);
  });

  test("bodies are received a few at a time, those of one workspace less, and each that ends makes room", async () => {
    const app = open({ flags: { "detect.max_batch_bytes": 4_096 } });
    const text = (bytes: number) => JSON.stringify({ images: [{ image: imageOf() }] }).padEnd(bytes);
    const post = (key: string, body: BodyInit, more = {}) => {
      const headers = { "x-api-key": key, "content-type": "application/json", ...more };
      return app.handle(new Request(`http://localhost${PATH}`, { method: "POST", headers, body }));
    };
    const told = async (key: string, body: string, more = { "content-length": String(body.length) }) => {
      const answer = await post(key, body, more);
      return answer.status === 503 ? [(await answer.json()).code, answer.headers.get("retry-after")] : answer.status;
    };
    const slowly = (key: string) => {
      const [end, body] = [Promise.withResolvers<string>(), text(4_000)];
      const pull = async (controller: ReadableStreamDefaultController) => {
        controller.enqueue(Buffer.from(await end.promise));
        controller.close();
      };
      const answer = post(key, new ReadableStream({ pull }), { "content-length": String(body.length) });
      return async (words = body) => {
        end.resolve(words);
        return (await answer).status;
      };
    };
    const full = ["NO_CAPACITY", "1"];
    const first = slowly(app.keyA);
    expect(await told(app.keyA, text(200))).toEqual(full);
    expect(await told(app.keyA, text(200), {} as never)).toEqual(full); // of a length that is not said
    expect(await told(app.keyB, text(4_000))).toBe(202);
    const second = slowly(app.keyB);
    expect(await told(app.keyOf("gamma", ["detect"]).key, text(200))).toEqual(full);
    expect(await first("{")).toBe(400);
    expect(await told(app.keyA, text(4_000))).toBe(202);
    expect(await second()).toBe(202);
    expect(await told(app.keyB, text(5_000))).toBe(413);
    expect(await told(app.keyB, text(5_000), {} as never)).toBe(413);
    expect(await told(app.keyB, text(4_000))).toBe(202);
  });

  const image = imageOf();
  test.each([
    ["no images", { images: [] }, "images"],
    ["too many", { images: Array(1001).fill({ image }) }, "images"],
    ["neither image nor url", { images: [{ id: "a" }] }, "images.0"],
    ["both", { images: [{ image, url: "https://example.com/" }] }, "images.0"],
    ["an id twice", { images: [{ id: "1", image }, { image }] }, "images.1.id"],
    ["a model nobody has", { images: [{ image }], model: "x" }, "detector_v1"],
  ])("%s is refused as a whole", async (_name, json, words) => {
    const app = open();
    const answer = await app.call("POST", PATH, json);
    expect(answer).toMatchObject({ status: 400, body: { error: expect.stringContaining(words) } });
    expect(app.ctx.db.$client.query("SELECT 1 FROM detection_batches").all()).toEqual([]);
    expect(existsSync(join(app.dir, "detection"))).toBe(false);
  });
});
