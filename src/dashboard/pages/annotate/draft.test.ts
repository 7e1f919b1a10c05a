import { expect, test } from "bun:test";
import type { LabelField } from "../../../resources/quality/annotation_queues/label_schema.ts";
import { type Action, actionOf, applied, codePoints, draftOf, EMPTY, missing, savesAtOnce } from "./draft.ts";

const common = { required: true, description: null };
const tone: LabelField = {
  ...common,
  name: "tone",
  type: "choice",
  options: ["kind", "rude"],
  multiple: false,
  ordered: false,
};
const topics: LabelField = { ...tone, name: "topics", multiple: true, required: false };
const stars: LabelField = { ...common, name: "stars", type: "scale", min: 1, max: 5 };
const pair = { mode: "pairwise" as const, labels: [] };

test("arrows and digits choose between two answers, 0 is a tie", () => {
  const keys = ["ArrowLeft", "1", "ArrowRight", "2", "0"].map((key) => actionOf(key, pair, EMPTY));
  expect(keys.map((action) => action?.type === "prefer" && action.value)).toEqual([
    ...(["first", "first", "second", "second", "tie"] as const),
  ]);
  expect(actionOf("s", pair, EMPTY)).toEqual({ type: "skip" });
  expect(actionOf("7", pair, EMPTY)).toBeUndefined();
});

test("after the choice of a pair, digits go to its labels", () => {
  const queue = { mode: "pairwise" as const, labels: [tone] };
  expect(actionOf("2", queue, EMPTY)).toEqual({ type: "prefer", value: "second" });
  const chosen = { ...EMPTY, preferred: "first" as const };
  expect(actionOf("2", queue, chosen)).toEqual({ type: "label", name: "tone", value: "rude", next: true });
  expect(actionOf("ArrowRight", queue, chosen)).toEqual({ type: "prefer", value: "second" });
});

test("labels: one value goes on to the next label, several values toggle, a scale takes its own range", () => {
  const queue = { mode: "single" as const, labels: [tone, topics, stars] };
  const type = (keys: string[]) =>
    keys.reduce((draft, key) => applied(draft, actionOf(key, queue, draft) as Action, queue), EMPTY);
  const done = type(["2", "1", "2", "1", "ArrowDown", "5"]);
  expect(done.labels).toEqual({ tone: "rude", topics: ["rude"], stars: 5 });
  expect(type(["1", "1", "1"]).labels).toEqual({ tone: "kind" });
  expect(actionOf("6", queue, { ...EMPTY, active: 2 })).toBeUndefined();
  expect(missing(queue, type(["1"]))).toBe("The label stars is missing");
  expect(missing(queue, done)).toBeUndefined();
});

test("one key is enough for a pair without labels and for a single label", () => {
  expect(savesAtOnce(pair)).toBe(true);
  expect(savesAtOnce({ mode: "single", labels: [stars] })).toBe(true);
  expect(savesAtOnce({ mode: "single", labels: [topics] })).toBe(false);
  expect(savesAtOnce({ mode: "single", labels: [stars, tone] })).toBe(false);
  expect(savesAtOnce({ mode: "single", labels: [] })).toBe(false);
});

test("an item that was done before shows what was given, a skip shows nothing", () => {
  const annotation = {
    annotator: "a",
    key_id: "k",
    comment: null,
    created_at: "",
    labels: { stars: 2 },
    correction: "x",
  };
  expect(draftOf({ annotations: [{ ...annotation, preferred: null, skipped: false }] })).toMatchObject({
    labels: { stars: 2 },
    correction: "x",
  });
  expect(draftOf({ annotations: [{ ...annotation, preferred: null, skipped: true }] })).toEqual(EMPTY);
});

test("offsets are counted in code points", () => {
  expect(codePoints("a😀b", 3)).toBe(2);
});
