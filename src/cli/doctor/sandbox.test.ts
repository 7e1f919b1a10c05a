import { expect, test } from "bun:test";
import { LAYERS, type Layer } from "../../lib/rewards/contract.ts";
import { readProbe } from "../../sandbox/confinement/support.ts";
import { layersVerdict, workersVerdict } from "./sandbox.ts";

const seen = (...layers: Layer[]) => [
  { language: "python" as const, layers: LAYERS, ms: 400 },
  { language: "typescript" as const, layers, ms: 60 },
];
const PROCESS: Layer[] = ["language", "rlimits", "no_new_privs", "seccomp"];

test("all layers are well", () => {
  expect(layersVerdict(seen(...LAYERS), "full")).toMatchObject({
    status: "ok",
    detail: expect.stringContaining("landlock, namespaces; python in 400 ms, typescript in 60 ms"),
  });
});

test("a layer that lacks in one language lacks; it is a warning where nobody insists on it", () => {
  const support = { ok: false as const, reason: "user namespaces are off", fix: "sysctl kernel.x=1" };
  const verdict = layersVerdict(seen(...PROCESS), "process", support);
  expect(verdict).toMatchObject({ status: "warn", detail: expect.stringContaining("without landlock, namespaces") });
  expect(verdict.fix).toContain("user namespaces are off: sysctl kernel.x=1");
  expect(verdict.fix).toContain("lsm=landlock");
});

test("below what is required nothing runs, and the way out is named", () => {
  const verdict = layersVerdict(seen("language"), "process");
  expect(verdict).toMatchObject({ status: "fail", detail: expect.stringContaining("no reward function runs") });
  expect(verdict.fix).toContain("CONFIG_SECCOMP_FILTER");
  expect(verdict.fix).toContain("or lower sandbox.require");
  expect(verdict.fix).not.toContain("landlock");
});

const probed = (landlock: string, seccomp = "ok") =>
  readProbe(`no_new_privs ok\nseccomp ${seccomp}\nlandlock ${landlock}\nnamespaces ok\n`);

test("workers: all layers are well, one that lacks is a warning, one that is required a failure", () => {
  const all = "confined by no_new_privs, seccomp, landlock, namespaces";
  expect(workersVerdict(probed("ok"), "full")).toEqual({ status: "ok", detail: all });
  const lacking = probed("Operation not supported");
  expect(workersVerdict(lacking, "process")).toMatchObject({
    status: "warn",
    detail: expect.stringContaining("without landlock (Operation not supported)"),
    fix: expect.stringContaining("lsm=landlock"),
  });
  expect(workersVerdict(lacking, "full")).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("do not start"),
    fix: expect.stringContaining("or lower sandbox.require"),
  });
  expect(workersVerdict(probed("ok", "Invalid argument"), "process").status).toBe("fail");
});

test("workers: a helper that says nothing leaves nothing holding", () => {
  expect(readProbe("").holding).toEqual([]);
  expect(workersVerdict(readProbe(""), "language")).toMatchObject({
    status: "warn",
    detail: expect.stringContaining("confined by nothing"),
  });
});
