// tier: all (whole paths on the executable)
/** The executable beside a card that it cannot use. nvidia-smi is a fake that lists one card. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const LINE = "0, GPU-5a1c, NVIDIA H200, 143771, 4, 17, 31, 75.36, 580.95.05";

function pathWithFakeCard(): string {
  const bin = join(tempDir(), "fake-bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "nvidia-smi"), `#!/bin/sh\necho '${LINE}'\n`, { mode: 0o755 });
  return `${bin}:${process.env["PATH"]}`;
}

test("serve says in one sentence that a card stays unused, why, and what to do", async () => {
  const server = await startBinary({ env: { PATH: pathWithFakeCard() } });
  await until("the note", async () => server.stderr().includes("stays unused"));
  await server.kill("SIGTERM");
  expect(server.stderr()).toContain(
    "NVIDIA H200 stays unused: this executable has no CUDA library inside; to use the GPU, run ./install.sh in a checkout on this machine, which builds an executable for the card",
  );
});

test("doctor lists the card and warns that it stays unused", async () => {
  const dir = tempDir();
  const child = Bun.spawn([...program(), "doctor", "--data", dir, "--json"], {
    env: { HOME: dir, PATH: pathWithFakeCard() },
    stderr: "ignore",
  });
  const { checks } = (await new Response(child.stdout).json()) as { checks: { check: string }[] };
  const of = (name: string) => checks.find(({ check }) => check === name);
  expect(of("GPUs")).toMatchObject({ status: "ok", detail: "NVIDIA H200, 140.4 GiB, driver 580.95.05" });
  expect(of("CUDA")).toMatchObject({
    status: "warn",
    detail: "NVIDIA H200 stays unused: this executable has no CUDA library inside",
    fix: expect.stringContaining("./install.sh"),
  });
});
