import { expect, test } from "bun:test";
import { type CurriculumOptions, openCurriculum } from "./curriculum.ts";
import { openOrder } from "./order.ts";

const ROWS = 40;
const OPTIONS: CurriculumOptions = {
  rows: ROWS,
  seed: 3,
  sampling: "difficulty",
  retireAfter: null,
  solvedReward: 1,
  replayShare: 0.5,
};
const orderOf = () => openOrder({ rows: ROWS, shuffle: true, atEnd: "wrap" }, { seed: 3, epoch: 0, position: 0 });
const open = (more: Partial<CurriculumOptions> = {}) => openCurriculum(orderOf(), { ...OPTIONS, ...more }, null);

test("uniform draws are those of the order", () => {
  const order = orderOf();
  const curriculum = open({ sampling: "uniform" });
  for (let i = 0; i < 5; i++) expect(curriculum.draw(7)).toEqual(order.draw(7));
});

test("by difficulty, prompts with a spread are drawn most, and no prompt twice at once", () => {
  const curriculum = open();
  for (let prompt = 0; prompt < ROWS; prompt++) curriculum.note(prompt, prompt < 8 ? [0, 1, 0, 1] : [0, 0, 0, 0]);
  const counts = new Array<number>(ROWS).fill(0);
  for (let i = 0; i < 200; i++) {
    const drawn = curriculum.draw(4);
    expect(new Set(drawn).size).toBe(4);
    for (const prompt of drawn) counts[prompt]!++;
  }
  const live = counts.slice(0, 8).reduce((a, b) => a + b, 0);
  expect(live / 800).toBeGreaterThan(0.7);
  expect(Math.max(...counts.slice(8))).toBeGreaterThan(0);
});

test("new prompts are drawn before those without a spread", () => {
  const curriculum = open();
  for (let prompt = 0; prompt < 20; prompt++) curriculum.note(prompt, [0, 0]);
  curriculum.note(20, [0, 1]);
  const drawn = Array.from({ length: 20 }, () => curriculum.draw(10)).flat();
  expect(drawn.filter((prompt) => prompt >= 20).length).toBeGreaterThan(160);
});

test("a prompt is retired after its visits in a row that were solved, and comes back when too few are left", () => {
  for (const sampling of ["uniform", "difficulty", "replay"] as const) {
    const curriculum = open({ sampling, retireAfter: 2 });
    for (let prompt = 0; prompt < 30; prompt++) curriculum.note(prompt, [1, 1]);
    curriculum.note(0, [1, 0]); // a failure begins the count again
    for (let prompt = 0; prompt < 30; prompt++) curriculum.note(prompt, [1, 1, null]);
    expect(curriculum.metrics()["sampling/retired_prompts"]).toBe(29);
    const drawn = Array.from({ length: 8 }, () => curriculum.draw(5)).flat();
    expect(drawn.filter((prompt) => prompt >= 1 && prompt < 30)).toEqual([]);
    expect(curriculum.draw(20)).toHaveLength(20);
  }
});

test("replay draws rare successes again, and counts draws in which they did not change", () => {
  const curriculum = open({ sampling: "replay" });
  for (let prompt = 0; prompt < ROWS; prompt++) curriculum.note(prompt, [0, 0, 0, 0]);
  curriculum.note(5, [0, 1, 0, 0]);
  curriculum.note(6, [1, 1, 1, 0]); // no rare success
  for (let i = 1; i <= 3; i++) {
    expect(curriculum.draw(4)).toContain(5);
    expect(curriculum.metrics()).toMatchObject({
      "sampling/replay_buffer": 1,
      "sampling/replayed": 1,
      "sampling/replay_unchanged": i,
    });
  }
  curriculum.note(5, [1, 1, 1, 1]);
  expect(curriculum.metrics()).toMatchObject({ "sampling/replay_buffer": 0, "sampling/replay_unchanged": 0 });
});

test("a stored state goes on with the same draws", () => {
  for (const sampling of ["difficulty", "replay"] as const) {
    const order = orderOf();
    const whole = openCurriculum(order, { ...OPTIONS, sampling }, null);
    const visit = (curriculum: typeof whole) => {
      const drawn = curriculum.draw(6);
      for (const prompt of drawn) curriculum.note(prompt, [prompt % 3 ? 0 : 1, 0, prompt % 5 ? 0 : 1]);
      return drawn;
    };
    for (let i = 0; i < 5; i++) visit(whole);
    const stored = JSON.parse(JSON.stringify(whole.state()));
    const rest = openOrder({ rows: ROWS, shuffle: true, atEnd: "wrap" }, order.state());
    const resumed = openCurriculum(rest, { ...OPTIONS, sampling }, stored);
    for (let i = 0; i < 5; i++) expect(visit(resumed)).toEqual(visit(whole));
    expect(resumed.state()).toEqual(whole.state());
  }
});
