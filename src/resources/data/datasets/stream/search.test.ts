import { afterAll, beforeAll, expect, test } from "bun:test";
import { datasetCalls, prompts } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp } from "../../../../../test/harness.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const { create, append } = datasetCalls(() => app);
const read = async (id: string, query: string) => (await app.call("GET", `/v1/datasets/${id}/rows?${query}`)).body;
const idsOf = ({ data }: { data: { row_id: number }[] }) => data.map(({ row_id }) => row_id);

/** Rows 1 to 4, row 2 replaced by entry 5, row 3 removed by entry 6, then row 7. */
async function changed() {
  const id = await create();
  await append(id, prompts("red apple", "green pear", "apple pie", 'say "apple"'));
  await append(id, [
    { _op: "supersede", _row_id: 2, prompt: "green apple" },
    { _op: "tombstone", _row_id: 3 },
  ]);
  await append(id, prompts("plum"));
  return id;
}

test("from_row begins at a place, whatever stands there", async () => {
  const id = await changed();
  expect(idsOf(await read(id, "live=1&from_row=2"))).toEqual([5, 4, 7]);
  expect(idsOf(await read(id, "live=1&from_row=6&limit=1"))).toEqual([7]);
  expect(idsOf(await read(id, "live=1&after=5"))).toEqual([4, 7]);
  expect(idsOf(await read(id, "from_row=6"))).toEqual([6, 7]);
  expect((await app.call("GET", `/v1/datasets/${id}/rows?from_row=0`)).status).toBe(422);
});

test("contains finds live rows by their newest content, and says how far it came", async () => {
  const id = await changed();
  expect(await read(id, "contains=apple")).toMatchObject({ has_more: false, scanned_to: 7 });
  expect(idsOf(await read(id, "contains=apple"))).toEqual([1, 5, 4]);
  expect(idsOf(await read(id, "contains=pear"))).toEqual([]);
  expect(idsOf(await read(id, `contains=${encodeURIComponent('"apple"')}`))).toEqual([4]);
  const first = await read(id, "contains=apple&limit=2");
  expect([idsOf(first), first.has_more, first.scanned_to]).toEqual([[1, 5], true, 3]);
  const rest = await read(id, `contains=apple&limit=2&from_row=${first.scanned_to + 1}`);
  expect([idsOf(rest), rest.has_more]).toEqual([[4], false]);
});

test("a search may ignore case, also of letters beyond ASCII and in changed rows", async () => {
  const id = await create();
  await append(id, prompts("Red APPLE", "green pear", "ÄPFEL und äpfel"));
  await append(id, [{ _op: "supersede", _row_id: 2, prompt: "Apple again" }]);
  expect(idsOf(await read(id, "contains=apple&ignore_case=true"))).toEqual([1, 4]);
  expect(idsOf(await read(id, "contains=apple"))).toEqual([]);
  expect(idsOf(await read(id, `contains=${encodeURIComponent("Äpfel")}&ignore_case=true`))).toEqual([3]);
});

test("statistics are of the live rows of a dataset or of a snapshot, and of the own workspace", async () => {
  const id = await changed();
  const { body } = await app.call("GET", `/v1/datasets/${id}/statistics`);
  expect(body).toMatchObject({
    object: "dataset.statistics",
    snapshot: null,
    measured_rows: 4,
    is_whole: true,
    duplicates: 0,
    columns: [{ name: "prompt", present: 4, distinct: 4, length: { min: 4, max: 11 } }],
  });
  await app.call("POST", `/v1/datasets/${id}/snapshots`);
  await append(id, prompts("plum", "plum"));
  const now = (await app.call("GET", `/v1/datasets/${id}/statistics`)).body;
  expect([now.measured_rows, now.duplicates, now.columns[0].frequent]).toEqual([6, 2, [{ value: "plum", count: 3 }]]);
  const before = (await app.call("GET", `/v1/datasets/${id}/statistics?snapshot=@snap-1`)).body;
  expect([before.measured_rows, before.snapshot]).toEqual([4, "@snap-1"]);
  const foreign = await app.call("GET", `/v1/datasets/${id}/statistics`, undefined, { key: app.keyB });
  expect(foreign.status).toBe(404);
  const empty = await create();
  expect((await app.call("GET", `/v1/datasets/${empty}/statistics`)).body).toMatchObject({
    measured_rows: 0,
    columns: [],
  });
});
