import { expect, test } from "bun:test";
import { workerEnv } from "./env.ts";

const place = { id: "wrk_1", dir: "/data/run", own: "/data/run/wrk_1" };

test.each([
  ["PATH", "/opt/bin", "/opt/bin"],
  ["LC_ALL", "C.UTF-8", "C.UTF-8"],
  ["CUDA_VISIBLE_DEVICES", "0,1", "0,1"],
  ["LD_LIBRARY_PATH", "/usr/local/cuda/lib64", "/usr/local/cuda/lib64"],
  ["HOME", "/home/ada", "/data/run/wrk_1"],
  ["TMPDIR", "/tmp", "/data/run/wrk_1"],
  ["ORT_DISABLE_TELEMETRY", "0", "1"],
  ["VERK_SECRETS__MASTER_KEY", "hush", undefined],
  ["VERK_FAILPOINT", "*:1", undefined],
  ["AWS_SECRET_ACCESS_KEY", "hush", undefined],
  ["BUN_OPTIONS", "--preload=/tmp/x.js", undefined],
  ["LD_PRELOAD", "/tmp/x.so", undefined],
  ["NODE_CHANNEL_FD", "3", undefined],
])("%s=%s reaches a worker as %p", (name, value, seen) => {
  expect(workerEnv({ [name]: value }, place)[name] as string | undefined).toBe(seen);
});

test("an unset name is not passed as the word undefined", () => {
  expect(Object.values(workerEnv({ LANG: undefined }, place))).not.toContain("undefined");
});
