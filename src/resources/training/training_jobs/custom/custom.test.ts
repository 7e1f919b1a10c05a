// tier: all (trains models)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { tarGz } from "../../../../../test/archives.ts";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../../test/turns.ts";
import { limitPoints, linesOf, pointOf } from "../../../../sandbox/jail/command_output.ts";
import { startJailed } from "../../../../sandbox/jail/jail.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../../sandbox/jail/support.ts";
import * as jobs from "../service.ts";
import type { JobRow } from "../table.ts";

setDefaultTimeout(120_000);
const support = await jailSupport(sessionJail("/tmp")).catch((error) => ({
  ok: false as const,
  reason: String(error),
}));
const jailed = test.skipIf(!support.ok); // there can be no sessions on this host, and so no custom jobs

const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const custom = (on: TrainingApp, command: string, more: Partial<JobRow> = {}) =>
  on.add({ method: "custom", baseModel: null, lora: null, command, totalSteps: 0, memoryBytes: 0, ...more });
const logOf = async (on: TrainingApp, id: string) =>
  (await on.call("GET", `/v1/training_jobs/${id}/logs/full?stream=all`)).body;
const file = async (on: TrainingApp, path: string) => (await on.call("GET", `/v1/volumes/keep/files/${path}`)).body;

jailed("a command sees its code, rows, secrets and volumes, and its output is kept", async () => {
  const on = await app();
  const form = new FormData();
  form.append("name", "code");
  form.append("file", new File([tarGz({ name: "src/train.sh", content: TRAIN })], "code.tar.gz"));
  const { body: code } = await on.call("POST", "/v1/code_artifacts", undefined, { raw: form });
  await on.call("PUT", "/v1/secrets/TOKEN", { value: "hunter2-hunter2" });
  await on.call("POST", "/v1/volumes", { name: "keep" });
  for (const path of ["old.txt", "gone.txt"])
    await on.call("PUT", `/v1/volumes/keep/files/${path}`, undefined, { raw: path });
  const volumes = [{ name: "keep", mount_path: "/workspace/keep" }];
  const id = custom(on, "./src/train.sh", { codeArtifactId: code.id, secrets: ["TOKEN"], volumes });
  const job = await on.reaches(id, "completed", 30_000);
  expect(on.metrics(id)).toEqual([
    { step: 1, loss: 0.5 },
    { step: 2, loss: 0.25 },
  ] as never);
  expect(job).toMatchObject({ step: 2, latestMetrics: { loss: 0.25 } });
  const log = await logOf(on, id);
  expect(log).toContain("2 rows");
  expect(log).toContain("the token is [secret]");
  expect(log).not.toContain("hunter2");
  expect(await file(on, "new.txt")).toBe("made\n");
  expect(await file(on, "old.txt")).toBe("changed\n");
  expect((await on.call("GET", "/v1/volumes/keep/files/gone.txt")).status).toBe(404);
  const { body, status } = await on.call("GET", `/v1/training_jobs/${id}/model`);
  expect([status, body.variant, body.status]).toEqual([200, "files", "ready"]);
  const { pathname, search } = new URL(body.url);
  const tar = (await on.call("GET", pathname + search, undefined, { key: null })).body;
  expect(tar).toContain("weights/model.bin");
  expect(tar).toContain("learned");
  await until("its directory to be gone", () => !existsSync(jobPaths(on.ctx, id).work));
});

const TRAIN = `#!/bin/sh
set -e
echo "$(wc -l < "$VERK_DATASET") rows"
echo "the token is $TOKEN"
echo '{"step": 1, "loss": 0.5, "note": "half"}'
echo '{"step": 2, "loss": 0.25}'
mkdir -p output/weights
echo learned > output/weights/model.bin
echo made > keep/new.txt
echo changed > keep/old.txt
rm keep/gone.txt
`;

jailed("conformance note: exit 3 of a user's command is command_failed, with its last lines", async () => {
  const on = await app();
  const job = await on.reaches(custom(on, "echo working; echo 'no such layer' >&2; exit 3"), "failed", 30_000);
  expect(job.error).toMatchObject({ code: "command_failed", param: "/command" });
  expect(job.error?.message).toContain("exited with code 3");
  expect(job.error?.message).toContain("no such layer");
  expect((await on.call("GET", `/v1/training_jobs/${job.id}/model`)).status).toBe(400);
});

jailed("a command is stopped when its job is cancelled, and starts again after a pause", async () => {
  const on = await app();
  const cancelled = custom(on, "echo on; while :; do sleep 0.1; done");
  await on.reaches(cancelled, "running", 30_000);
  jobs.cancel(on.ctx, on.workspaceA, cancelled);
  await on.reaches(cancelled, "cancelled", 30_000);
  const paused = custom(on, 'if [ -n "$AGAIN" ]; then exit 0; fi; sleep 60');
  await on.reaches(paused, "running", 30_000);
  jobs.pause(on.ctx, on.workspaceA, paused);
  await until("its command to be gone", () => on.ctx.state.trainingJobs.runCount === 0, 30_000);
  await on.call("PUT", "/v1/secrets/AGAIN", { value: "1" });
  on.ctx.db.$client.run("UPDATE training_jobs SET secrets = '[\"AGAIN\"]' WHERE id = ?", [paused]);
  jobs.resume(on.ctx, { workspaceId: on.workspaceA, keyId: null }, paused);
  await on.reaches(paused, "completed", 30_000);
});

jailed("a command that prints without end does not block the server, and can be cancelled", async () => {
  const on = await app();
  const id = custom(on, `timeout 30 yes '{"step":1,"loss":0.5}'`);
  await until("what it says", () => on.row(id).step > 0);
  expect((await on.call("GET", `/v1/training_jobs/${id}`)).body.status).toBe("running");
  jobs.cancel(on.ctx, on.workspaceA, id);
  await on.reaches(id, "cancelled", 10_000);
});

jailed("S4: a run records 200 names of metrics, and its log and events name the others", async () => {
  const on = await app();
  const line = "{ printf '{\"step\":1'; for i in $(seq 300); do printf ',\"k%s\":1' $i; done; echo '}'; }";
  const id = custom(on, `${line}; echo '{"step":2,"k1":2,"late":1}'`);
  await on.reaches(id, "completed", 30_000);
  const [first, second] = on.metrics(id);
  expect(Object.keys(first as object)).toHaveLength(201); // and the step
  expect(second).toEqual({ step: 2, k1: 2 } as never);
  const warning = "at most 200 metrics. Others are only in the log: k201, k202, k203, k204, k205 and 95 more";
  expect(await logOf(on, id)).toContain(warning);
  const { data } = (await on.call("GET", `/v1/training_jobs/${id}/events`)).body;
  const dropped = data.filter(({ type }: { type: string }) => type === "metrics_dropped");
  expect(dropped).toEqual([expect.objectContaining({ level: "warn", message: expect.stringContaining(warning) })]);
});

jailed("S4: a command that prints many points lets others in", async () => {
  const on = await app();
  let id = "";
  const longest = await longestTurnMsOf(async () => {
    id = custom(on, `for i in $(seq 2000); do printf '{"step":%s,"a":1}\\n' $i; done`);
    await on.reaches(id, "completed", 60_000);
  });
  expect(on.metrics(id)).toHaveLength(2_000);
  expect(longest).toBeLessThan(LONGEST_TURN_MS);
});

jailed("a device of the host can be mounted in the jail and works there", async () => {
  const said: string[] = [];
  const run = startJailed(
    sessionJail("/tmp"),
    {
      argv: ["/bin/sh", "-c", "test -c /dev/nvidia0 && echo into nothing > /dev/nvidia0 && echo ok"],
      env: {},
      cwd: "/",
      mounts: [
        { kind: "read_only", from: "/usr", to: "/usr" },
        ...["/bin", "/lib", "/lib64"].map((at) => ({ kind: "symlink" as const, target: `usr${at}`, at })),
        { kind: "devices" },
        { kind: "proc" },
        { kind: "device", from: "/dev/null", to: "/dev/nvidia0" },
      ],
      limits: { processes: 8, memoryBytes: 2 ** 28, openFiles: 64, fileBytes: 1, cpuSeconds: 5, wallMs: 5_000 },
      network: "none",
      filter: "session",
    },
    { onOutput: ({ bytes }) => void said.push(new TextDecoder().decode(bytes)) },
  );
  expect(await run.ended).toMatchObject({ reason: "exited", exitCode: 0 });
  expect(said.join("")).toBe("ok\n");
});

test("a custom job fails with a message if sessions are turned off", async () => {
  const on = await app({ flags: { "sessions.enabled": false } });
  const job = await on.reaches(custom(on, "true"), "failed");
  expect(job.error).toMatchObject({ code: "provisioning_failed" });
  expect(job.error?.message).toContain("turned off (sessions.enabled)");
});

test("lines are whole, however the bytes arrive, and have no secrets", () => {
  const seen: string[] = [];
  const lines = linesOf(["abc", "abcdef", ""], (stream, said) => {
    for (const line of said) seen.push(`${stream}: ${line}`);
  });
  const bytes = new TextEncoder().encode("é one\r\ntwo abcdef\nthree");
  for (const byte of bytes) lines.push({ stream: "stdout", bytes: Uint8Array.of(byte) });
  lines.push({ stream: "stderr", bytes: new TextEncoder().encode("abc") });
  lines.end();
  expect(seen).toEqual(["stdout: é one", "stdout: two [secret]", "stdout: three", "stderr: [secret]"]);
});

test("a long line comes in pieces that make it whole, and a secret at a cut is removed", () => {
  let [text, pieces] = ["", 0];
  const secret = "s3cret-value";
  const lines = linesOf([secret], (_stream, said, { isOpen }) => {
    pieces += said.length;
    text += said.join("\n") + (isOpen ? "" : "\n");
  });
  const long = `${"x".repeat(65_536 - 6)}${secret}${"y".repeat(200_000)}`;
  const bytes = new TextEncoder().encode(`${long}\nshort\n`);
  for (let at = 0; at < bytes.length; at += 1024)
    lines.push({ stream: "stdout", bytes: bytes.subarray(at, at + 1024) });
  lines.end();
  expect(text).toBe(`${long.replace(secret, "[secret]")}\nshort\n`);
  expect(pieces).toBeGreaterThan(3);
});

test("S4: a run records 200,000 points, and says from which step on it does not", () => {
  const warnings: string[] = [];
  const limited = limitPoints((message) => warnings.push(message));
  const point = (step: number) => limited({ step, epoch: 0, values: { loss: 1 } });
  for (let step = 1; step <= 200_000; step++) if (!point(step)) throw new Error(`no step ${step}`);
  expect([point(200_001), point(200_002)]).toEqual([undefined, undefined]);
  expect(warnings).toEqual([expect.stringContaining("Metrics from step 200001 on are only in the log")]);
});

test.each([
  ['{"step":1,"loss":0.5}', { step: 1, epoch: 0, values: { loss: 0.5 } }],
  ['{"step":3,"epoch":0.5,"a":1,"b":"x","c":null}', { step: 3, epoch: 0.5, values: { a: 1 } }],
  ['{"step":1}', undefined],
  ['{"step":-1,"loss":1}', undefined],
  ['{"step":"1","loss":1}', undefined],
  ['{"loss":1}', undefined],
  ['{"step":1,', undefined],
  ["step 1", undefined],
  ['{"step":1,"=cmd()":1,"train/loss":2}', { step: 1, epoch: 0, values: { "train/loss": 2 } }],
  ['{"step":1e12,"loss":1}', undefined],
])("%s as metrics", (line, point) => expect(pointOf(line)).toEqual(point as never));
