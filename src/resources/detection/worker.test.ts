// tier: all (networks of the detectors)
import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf, imageOf, manyDetecting } from "../../../test/detection_kit.ts";
import { fakeClock, until } from "../../../test/harness.ts";
import { DetectorState, inCompany } from "./worker.ts";

const { open, closeAll } = manyDetecting();
afterEach(closeAll);

describe("the detector", () => {
  test("is started by the first who needs it, kept, and started again after its death", async () => {
    const app = open();
    expect(app.starts()).toEqual([]);
    const answers = await Promise.all(Array.from({ length: 5 }, () => app.detect()));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(app.starts()).toHaveLength(1);
    process.kill(app.starts()[0] as number, "SIGKILL");
    await until("its end to be seen", () => app.ctx.supervisor.live().length === 0);
    expect((await app.detect()).status).toBe(200);
    expect(app.starts()).toHaveLength(2);
  }, 30_000);

  test("a request that died with it is tried once more", async () => {
    const app = open();
    const die = join(app.dir, "once");
    writeFileSync(die, "");
    const { status, body } = await app.detect({ die, score: 0.9 });
    expect([status, body.prediction, app.starts().length]).toEqual([200, "ai", 2]);
  });

  test("a file that ends it twice is at fault; those that were in it with it are not", async () => {
    const app = open();
    const gate = join(app.dir, "gate");
    const innocent = Array.from({ length: 6 }, () => app.detect({ gate, score: 0.1 }));
    await until("all to be in it", () => app.scored() === 6);
    const killer = bytesOf({ die: true }).toString("base64");
    const guilty = app.call("POST", "/api/detect", { image: killer });
    await until("its death", () => app.starts().length >= 2);
    writeFileSync(gate, "");
    for (const { status, body } of await Promise.all(innocent))
      expect([status, body.prediction]).toEqual([200, "real"]);
    const { status, body } = await guilty;
    expect([status, body.code]).toEqual([400, "INVALID_IMAGE"]);
    const starts = app.starts().length;
    const again = await app.call("POST", "/api/detect", { image: killer });
    expect([again.status, again.body.code, app.starts().length]).toEqual([400, "INVALID_IMAGE", starts]);
    expect((await app.detect()).status).toBe(200);
  });

  test("one that does not start is tried again after a pause that grows, and meanwhile refused", async () => {
    const clock = fakeClock();
    const app = open({ clock, lives: [{ fail: "crash" }, { fail: "crash" }, {}] });
    const first = await app.detect();
    expect([first.status, first.body.code]).toEqual([503, "DETECTOR_UNAVAILABLE"]);
    expect((await app.detect()).body.code).toBe("DETECTOR_UNAVAILABLE");
    expect(app.starts()).toHaveLength(1);
    clock.advance(500);
    expect((await app.detect()).body.code).toBe("DETECTOR_UNAVAILABLE");
    clock.advance(500);
    const third = await app.detect();
    expect([third.body.code, third.headers.get("retry-after"), app.starts().length]).toEqual([
      "DETECTOR_UNAVAILABLE",
      "1",
      2,
    ]);
    clock.advance(500);
    expect((await app.detect()).status).toBe(200);
  });

  test("clock: a jump of a year back makes no pause longer", async () => {
    const clock = fakeClock();
    const app = open({ clock, lives: [{ fail: "crash" }, {}] });
    expect((await app.detect()).status).toBe(503);
    clock.set(-365 * 86_400_000);
    clock.advance(1_000);
    expect((await app.detect()).status).toBe(200);
  });

  test("ends when nobody has needed it for a while, and not before", async () => {
    const clock = fakeClock();
    const app = open({ clock, flags: { "detect.idle_seconds": 60 } });
    await app.detect();
    clock.advance(59_000);
    await app.detect();
    clock.advance(59_000);
    expect(app.ctx.supervisor.live()).toHaveLength(1);
    clock.advance(1_000);
    await until("its end", () => app.ctx.supervisor.live().length === 0);
    expect((await app.detect()).status).toBe(200);
  });

  test("one that hangs is ended, and what it says outside its protocol is not believed", async () => {
    const app = open({ flags: { "detect.timeout_ms": 300 } });
    const hung = await app.detect({ gate: join(app.dir, "never") });
    expect([hung.status, hung.body.code]).toEqual([400, "INVALID_IMAGE"]);
    const lied = await app.detect({ lie: true });
    expect([lied.status, lied.body.code]).toEqual([503, "ALL_MODELS_FAILED"]);
    expect(app.log.some((line) => line.includes("outside its protocol"))).toBe(true);
  });

  test("with all places taken others wait, and beyond the line they are refused at once", async () => {
    const app = open({ flags: { "detect.parallel": 1, "detect.wait_ms": 60_000 } });
    const gate = join(app.dir, "gate");
    const inside = [app.detect({ gate })];
    await until("the place to be taken", () => app.scored() === 1);
    const waiting = Array.from({ length: 8 }, () => app.detect());
    const image = imageOf();
    await until("the line to be full", async () => {
      const { status, body, headers } = await app.call("POST", "/api/detect", { image });
      return status === 429 && body.code === "QUEUE_FULL" && headers.get("retry-after") === "5";
    });
    writeFileSync(gate, "");
    for (const { status } of await Promise.all([...inside, ...waiting])) expect(status).toBe(200);
  });

  test("who has waited too long is refused", async () => {
    const app = open({ flags: { "detect.parallel": 1, "detect.wait_ms": 50 } });
    const gate = join(app.dir, "gate");
    const inside = app.detect({ gate });
    await until("the place to be taken", () => app.scored() === 1);
    expect((await app.detect()).body.code).toBe("NO_CAPACITY");
    writeFileSync(gate, "");
    expect((await inside).status).toBe(200);
  });
});

describe("files in the process", () => {
  test("go together or alone, in order of arrival", async () => {
    const state = new DetectorState({ parallel: 3 });
    const log: string[] = [];
    const opened = Promise.withResolvers<void>();
    const named = (name: string) => async () => void log.push(name);
    const first = inCompany(state, 1, async () => {
      log.push("in");
      await opened.promise;
      log.push("out");
    });
    const second = inCompany(state, 1, named("beside"));
    const alone = inCompany(state, state.company.permits, named("alone"));
    const later = inCompany(state, 1, named("later"));
    const other = inCompany(state, state.company.permits, named("alone too"));
    await second;
    opened.resolve();
    await Promise.all([first, alone, later, other]);
    expect(log).toEqual(["in", "beside", "out", "alone", "later", "alone too"]);
  });

  test("let others in after a failure", async () => {
    const state = new DetectorState({ parallel: 3 });
    await expect(inCompany(state, 3, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await inCompany(state, 1, async () => 1)).toBe(1);
  });
});
