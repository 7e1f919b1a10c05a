import { describe, expect, test } from "bun:test";
import type { Job } from "./find.ts";
import { createViewer } from "./follow.ts";
import { createScreen } from "./screen.ts";
import { bar, lastLine, liveLines, plainLine, shortNumber, sparkline } from "./view.ts";

const job = (more: Partial<Job> = {}): Job => ({
  id: "job_1",
  status: "running",
  base_model: "verk-tiny",
  method: "grpo",
  output_name: "sums",
  progress: { step: 30, total_steps: 60, percent: 50, eta_seconds: 63 },
  latest_metrics: {},
  error: null,
  queue_position: null,
  queue_reason: null,
  created_at: "2026-01-01T00:00:00.000Z",
  started_at: "2026-01-01T00:00:01.000Z",
  completed_at: null,
  ...more,
});
const point = (step: number, reward: number) => ({ step, values: { reward, loss: 0.01, tokens_per_second: 4210.4 } });

describe("sparkline", () => {
  test.each([
    ["rises from the lowest block to the highest", [0, 1, 2, 3, 4, 5, 6, 7], 40, "▁▂▃▄▅▆▇█"],
    ["takes the mean of each stretch where there are more values than columns", [0, 2, 9, 11], 2, "▁█"],
    ["is flat and low for equal values", [3, 3, 3], 40, "▁▁▁"],
    ["leaves out what is no number", [0, Number.NaN, 1], 40, "▁█"],
    ["is empty for nothing", [], 40, ""],
  ])("%s", (_what, values, width, drawn) => expect(sparkline(values, width)).toBe(drawn));
});

test.each([
  [0.3125, "0.3125"],
  [12.3456, "12.35"],
  [0.000125, "1.25e-4"],
  [0.0001, "1e-4"],
  [4210.4, "4210"],
  [0, "0"],
  [-0.25, "-0.25"],
  [Number.NaN, "-"],
])("%p is written %s", (value, text) => expect(shortNumber(value)).toBe(text));

test("a bar is as full as it is told, and no fuller than full", () => {
  expect(bar(0.5, 4)).toBe("██░░  50 %");
  expect(bar(1, 4)).toBe("████ 100 %");
});

test("a running job shows what it is, how far it is and how its reward moved", () => {
  expect(liveLines({ job: job(), points: [point(1, 0.25), point(30, 0.75)] }, 100)).toEqual([
    "sums · grpo of verk-tiny · running",
    `${"█".repeat(15)}${"░".repeat(15)}  50 %  step 30/60  1 min 3 s left`,
    "reward 0.75  ▁█  from 0.25",
    "loss 0.01  4210 tokens/s",
  ]);
});

test("a job that waits says for what", () => {
  const progress = { step: 0, total_steps: 60, percent: 0, eta_seconds: null };
  const queued = job({ status: "queued", queue_position: 2, progress });
  expect(liveLines({ job: queued, points: [] }, 100)[0]).toBe(
    "sums · grpo of verk-tiny · queued · position 2 in the queue",
  );
  expect(plainLine({ job: queued, points: [] })).toBe("queued: position 2 in the queue");
  const told = { ...queued, queue_reason: "waits for 3 GB of memory" };
  expect(plainLine({ job: told, points: [] })).toBe("queued: waits for 3 GB of memory");
});

test.each(["x", "運", "e\u0301", "👩‍👩‍👧"])(
  "no line is wider than the terminal, whatever the name is made of: %s",
  (letter) => {
    const lines = liveLines({ job: job({ output_name: letter.repeat(200) }), points: [point(1, 0.5)] }, 40);
    for (const line of lines) expect(Bun.stringWidth(line)).toBeLessThan(40);
    expect(Bun.stringWidth(lines[0] ?? "")).toBeGreaterThan(36);
  },
);

test("the loss is the headline of SFT and is not said twice", () => {
  const seen = { job: job({ method: "sft" }), points: [{ step: 1, values: { loss: 2.5 } }] };
  expect(plainLine(seen)).toBe("running  step 30/60  loss 2.5  1 min 3 s left");
});

test("the last word tells the time it took, the way it went and the reason of a failure", () => {
  const over = { status: "completed", completed_at: "2026-01-01T00:01:31.000Z" } as const;
  expect(lastLine({ job: job(over), points: [point(1, 0.25), point(60, 0.9)] })).toBe(
    "sums (job_1) completed after 1 min 30 s, reward 0.25 → 0.9",
  );
  const error = { code: "reward_error", message: "The reward code raised", param: null } as const;
  const early = { status: "completed", stopped_early: "eval_loss did not improve in 2 evaluations" } as const;
  expect(lastLine({ job: job(early), points: [] })).toBe(
    "sums (job_1) completed; stopped early: eval_loss did not improve in 2 evaluations",
  );
  expect(lastLine({ job: job({ status: "failed", error }), points: [] })).toBe(
    "sums (job_1) failed: The reward code raised (reward_error)",
  );
});

test("F30 watch says that it reconnects, and shows no remaining time meanwhile", () => {
  const written: string[] = [];
  const viewer = createViewer({ isTTY: true, columns: 80, write: (text) => void written.push(text) });
  const state = { job: job({}), points: [] };
  viewer.show(state);
  expect(written.join("")).toContain("left");
  written.length = 0;
  viewer.lost?.(state);
  expect(written.join("")).toContain("reconnecting");
  expect(written.join("")).not.toContain("left");
  const lines: string[] = [];
  const plain = createViewer({ write: (text) => void lines.push(text) });
  plain.lost?.(state);
  plain.lost?.(state);
  expect(lines).toEqual(["The server cannot be reached: reconnecting\n"]);
});

test("a screen draws over what it drew, clears what is left below, and is gone at the end", () => {
  const written: string[] = [];
  const screen = createScreen({ isTTY: true, columns: 80, write: (text) => void written.push(text) });
  screen.draw(["a", "b"]);
  screen.draw(["a", "b"]);
  screen.draw(["c"]);
  screen.end();
  expect(written).toEqual(["\r\x1b[Ka\n\x1b[Kb\n", "\r\x1b[2A\x1b[Kc\n\x1b[J", "\r\x1b[1A\x1b[J"]);
});
