import { afterEach, expect, test } from "bun:test";
import { manyTrainings } from "../../../../../test/fake_trainers.ts";
import { pathsOf } from "../state/paths.ts";
import { nodesOf, specOf } from "./spec.ts";

const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const CARD = "GPU-cf35c656-8872-dba6-15bc-92b3d41a1c49";
const OTHER = "GPU-00000000-1111-2222-3333-444444444444";
const driver = () => ({
  cards: [`GPU UUID: \t ${OTHER}\nDevice Minor: \t 0\n`, `GPU UUID: \t ${CARD}\nDevice Minor: \t 1\n`],
  nodes: ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"],
  dir: "/dev",
});

const OTHERS = { env: {}, secrets: {}, proxy: undefined };

test("GPU: the jail of a custom job holds the leased card alone, and names it to CUDA", async () => {
  const on = await app({ loop: false });
  const job = on.row(on.add({ method: "custom", baseModel: null, lora: null, command: "true", gpuType: "H200" }));
  const dir = { work: pathsOf(on.ctx, job.id).work, copies: [] };
  const spec = specOf(on.ctx, job, { dir, ...OTHERS, cards: { uuids: [CARD], nodes: nodesOf([CARD], driver) } });
  const devices = spec.mounts.flatMap((mount) => (mount.kind === "device" ? [[mount.from, mount.to]] : []));
  expect(devices).toEqual(["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"].map((node) => [node, node]));
  expect(spec.env["CUDA_VISIBLE_DEVICES"]).toBe(CARD);
  const none = specOf(on.ctx, job, { dir, ...OTHERS, cards: { uuids: [], nodes: nodesOf([], driver) } });
  expect(none.mounts.filter(({ kind }) => kind === "device")).toEqual([]);
  expect(none.env["CUDA_VISIBLE_DEVICES"]).toBe("");
}, 60_000);

test("GPU: a card that cannot be identified fails the job with a message", () => {
  expect(() => nodesOf(["GPU-1"], driver)).toThrow("The job cannot use its GPU: the driver does not say");
});
