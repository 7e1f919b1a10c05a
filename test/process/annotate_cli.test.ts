// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { pair } from "../annotations_kit.ts";
import { startBinary } from "../binary.ts";

let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary();
});
afterAll(async () => {
  await server.kill();
  rmSync(server.dir, { recursive: true, force: true });
});

const queue = async (name: string, body: object, items: object[]) => {
  const { id } = (await server.call("POST", "/v1/annotation_queues", { name, ...body })).body;
  await server.call("POST", `/v1/annotation_queues/${id}/items`, { items });
  return async () => (await server.call("GET", `/v1/annotation_queues/${id}/items`)).body.data.toReversed();
};
const lines = (...each: string[]) => each.map((line) => `${line}\n`).join("");

test("verk annotate asks for each pair, takes a skip, asks again after nonsense, and ends when nothing is left", async () => {
  const itemsOf = await queue("pairs", { mode: "pairwise" }, ["one", "two", "three"].map(pair));
  const stdin = lines("2", "best", "/skip", "t");
  const { code, out, err } = await server.verk(["annotate", "pairs", "--as", "ada"], { stdin });
  expect([code, err]).toEqual([0, expect.stringContaining("nothing left")]);
  expect(out).toContain("[1] one good");
  expect(err).toContain("2 annotations sent.");
  expect(await itemsOf()).toMatchObject([
    { outcome: { preferred: "second" }, annotations: [{ annotator: "ada" }] },
    { status: "pending", annotations: [{ annotator: "ada", skipped: true }] },
    { outcome: { preferred: "tie" } },
  ]);
});

test("verk annotate asks for each label and a correction; a wrong value brings the item again", async () => {
  const labels = [
    { name: "tone", type: "choice", options: ["kind", "rude"] },
    { name: "score", type: "scale" },
    { name: "parts", type: "span", options: ["name"], required: false },
  ];
  const itemsOf = await queue("labels", { mode: "single", labels }, [{ input: "who?", outputs: ["Ada Bo"] }]);
  const stdin = lines("kind", "9", "", "", "kind", "4", "0-3 name, 4-6 name", "Ada.");
  const { code, err } = await server.verk(["annotate", "labels", "--as", "bo"], { stdin });
  expect(code).toBe(0);
  expect(err).toContain("must be a whole number from 1 to 5");
  const parts = [
    { start: 0, end: 3, label: "name" },
    { start: 4, end: 6, label: "name" },
  ];
  const annotation = { annotator: "bo", labels: { tone: "kind", score: 4, parts }, correction: "Ada." };
  expect(await itemsOf()).toMatchObject([{ status: "completed", annotations: [annotation] }]);
});

test("verk annotate ends at the end of its input, and names the queues that there are", async () => {
  await queue("left", { mode: "pairwise" }, [pair("x")]);
  expect(await server.verk(["annotate", "left"], { stdin: "" })).toMatchObject({ code: 0 });
  const { code, err } = await server.verk(["annotate", "none"], { stdin: "" });
  expect([code, err]).toEqual([1, expect.stringContaining("left")]);
});
