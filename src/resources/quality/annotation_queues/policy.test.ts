import { describe, expect, test } from "bun:test";
import type { AnnotationValue, LabelField } from "./label_schema.ts";
import { outcomeOf, rowOf, valueFault } from "./policy.ts";

const value = (more: Partial<AnnotationValue> = {}): AnnotationValue => ({
  labels: {},
  preferred: null,
  correction: null,
  ...more,
});
const votes = (...preferred: AnnotationValue["preferred"][]) =>
  preferred.map((each) => ({ value: value({ preferred: each }) }));
const fixes = (...texts: (string | null)[]) => texts.map((correction) => ({ value: value({ correction }) }));

describe("the outcome", () => {
  test("of a pairwise item is the choice of most annotators", () => {
    expect(outcomeOf("pairwise", votes("first"))).toMatchObject({ preferred: "first", votes: { first: 1 } });
    expect(outcomeOf("pairwise", votes("first", "second", "second"))).toMatchObject({ preferred: "second" });
    expect(outcomeOf("pairwise", votes("first", "second")).preferred).toBe("tie");
    expect(outcomeOf("pairwise", votes("tie", "tie", "first")).preferred).toBe("tie");
    expect(outcomeOf("pairwise", votes("tie", "first")).preferred).toBe("first");
  });

  test("of a single item is the correction of most annotators, or the newest", () => {
    expect(outcomeOf("single", fixes(null, "a"))).toEqual({ preferred: null, correction: "a", votes: null });
    expect(outcomeOf("single", fixes("a", "b", "a", "b", "b", "a")).correction).toBe("a");
    expect(outcomeOf("single", fixes("a", "a", "b")).correction).toBe("a");
    expect(outcomeOf("single", fixes("a", "b")).correction).toBe("b");
    expect(outcomeOf("single", fixes(null)).correction).toBeNull();
  });
});

test("the row has the chosen and the rejected output, or the correction, and the ids of its origin", () => {
  const item = { id: "anqi_1", queueId: "anq_1", input: "q", outputs: ["x", "y"] };
  const origin = { annotation_queue_id: "anq_1", annotation_item_id: "anqi_1" };
  const outcome = (preferred: AnnotationValue["preferred"]) => outcomeOf("pairwise", votes(preferred));
  expect(rowOf({ ...item, outcome: outcome("first") })).toEqual({ prompt: "q", chosen: "x", rejected: "y", ...origin });
  expect(rowOf({ ...item, outcome: outcome("second") })).toEqual({
    prompt: "q",
    chosen: "y",
    rejected: "x",
    ...origin,
  });
  expect(item.outputs).toEqual(["x", "y"]);
  expect(rowOf({ ...item, outcome: outcome("tie") })).toBeUndefined();
  expect(rowOf({ ...item, outcome: null })).toBeUndefined();
  const fixed = outcomeOf("single", fixes("better"));
  expect(rowOf({ ...item, outcome: fixed })).toEqual({ prompt: "q", completion: "better", ...origin });
});

describe("an annotation", () => {
  const common = { description: null, required: true };
  const LABELS: LabelField[] = [
    { ...common, name: "tone", type: "choice", options: ["kind", "rude"], multiple: false, ordered: false },
    { ...common, name: "score", type: "scale", min: 1, max: 5 },
    { ...common, name: "tags", type: "choice", options: ["a", "b"], multiple: true, ordered: false, required: false },
    { ...common, name: "why", type: "text", required: false },
    { ...common, name: "parts", type: "span", options: ["name"], of: "output", required: false },
  ];
  const item = { input: "q", outputs: ["😀 Ada"] };
  const faultOf = (labels: Record<string, unknown>) =>
    valueFault({ mode: "single", labels: LABELS }, item, value({ labels: labels as AnnotationValue["labels"] }));
  const GOOD = { tone: "kind", score: 3 };

  test("with values of the schema is accepted", () => {
    expect(faultOf(GOOD)).toBeUndefined();
    const spans = [{ start: 2, end: 5, label: "name" }];
    expect(faultOf({ ...GOOD, tags: ["b", "a"], why: "", parts: spans })).toBeUndefined();
    expect(faultOf({ ...GOOD, tags: [], parts: [] })).toBeUndefined();
  });

  test.each([
    ["a label that is missing", { tone: "kind" }, "score", "required"],
    ["an unknown label", { ...GOOD, mood: "x" }, "mood", "tone, score, tags, why, parts"],
    ["another option", { ...GOOD, tone: "odd" }, "tone", "one of kind, rude"],
    ["a list for one option", { ...GOOD, tone: ["kind"] }, "tone", "one of kind, rude"],
    ["a value beyond the scale", { ...GOOD, score: 6 }, "score", "1 to 5"],
    ["half a point", { ...GOOD, score: 2.5 }, "score", "1 to 5"],
    ["one option for a list", { ...GOOD, tags: "a" }, "tags", "must be a list"],
    ["an option twice", { ...GOOD, tags: ["a", "a"] }, "tags", "twice"],
    ["a number for a text", { ...GOOD, why: 1 }, "why", "must be a text"],
    ["a span beyond the text", { ...GOOD, parts: [{ start: 2, end: 6, label: "name" }] }, "parts", "end ≤ 5"],
    ["an empty span", { ...GOOD, parts: [{ start: 2, end: 2, label: "name" }] }, "parts", "start < end"],
    ["a span of another kind", { ...GOOD, parts: [{ start: 0, end: 1, label: "x" }] }, "parts", "one of name"],
    ["texts for spans", { ...GOOD, parts: ["x"] }, "parts", "list of spans"],
  ])("with %s is refused by its name", (_, labels, name, message) => {
    expect(faultOf(labels)).toEqual({ path: ["labels", name], message: expect.stringContaining(message) });
  });

  test("may leave out a label that has the name of a property of every object", () => {
    const labels: LabelField[] = [{ ...common, name: "constructor", type: "text", required: false }];
    expect(valueFault({ mode: "single", labels }, item, value())).toBeUndefined();
  });

  test("fits the mode of its queue", () => {
    const pairwise = { mode: "pairwise" as const, labels: [] };
    const single = { mode: "single" as const, labels: [] };
    expect(valueFault(pairwise, item, value())?.path).toEqual(["preferred"]);
    expect(valueFault(pairwise, item, value({ preferred: "tie" }))).toBeUndefined();
    expect(valueFault(pairwise, item, value({ preferred: "tie", correction: "x" }))?.path).toEqual(["correction"]);
    expect(valueFault(single, item, value({ preferred: "tie" }))?.path).toEqual(["preferred"]);
    expect(valueFault(single, item, value({ correction: "x" }))).toBeUndefined();
  });
});
