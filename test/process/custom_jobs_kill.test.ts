// tier: all (kills the executable again and again, 60 s)
/** A server that is killed while it writes a volume back: each file is the old one or the new one, and the job goes on. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { tarGz } from "../archives.ts";
import { startBinary } from "../binary.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { sweep } from "../sweep.ts";

setDefaultTimeout(300_000);
const ROUNDS = sweep({ quick: 3, full: 12 });
const FILES = 40;
const BYTES = 300_000;
const name = (i: number) => `f${String(i).padStart(2, "0")}`;
const text = (word: string, i: number) => `${word}${name(i)}`.repeat(BYTES / 6);
/** Files are written in this order, so that a kill leaves some old and some new. */
const COMMAND = `/usr/bin/python3 -c '
for i in range(${FILES}):
    name = f"f{i:02}"
    open(f"out/{name}", "w").write(("new" + name) * ${BYTES / 6})
open("out/added", "w").write("added")'; rm -f out/gone`;

type Server = Awaited<ReturnType<typeof startBinary>>;

async function statesOf(server: Server): Promise<string[]> {
  const states: string[] = [];
  for (let i = 0; i < FILES; i++) {
    const { body } = await server.call("GET", `/v1/volumes/out/files/${name(i)}`);
    states.push(body === text("old", i) ? "old" : body === text("new", i) ? "new" : "half");
  }
  return states;
}

test("killed while a volume is written back: no file is half, and the job writes all of them in the end", async () => {
  let mixed = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const dir = tempDir();
    const server = await startBinary({ dir });
    await server.call("POST", "/v1/volumes", { name: "out" });
    for (let i = 0; i < FILES; i++) await server.call("PUT", `/v1/volumes/out/files/${name(i)}`, text("old", i));
    await server.call("PUT", "/v1/volumes/out/files/gone", "gone");
    const form = new FormData();
    form.append("name", "code");
    form.append("file", new File([tarGz({ name: "readme", content: "nothing" })], "code.tar.gz"));
    const { body: code } = await server.call("POST", "/v1/code_artifacts", form);
    const volumes = [{ name: "out", mount_path: "/workspace/out" }];
    const request = { method: "custom", code_artifact_id: code.id, command: COMMAND, volumes };
    const { body: job } = await server.call("POST", "/v1/training_jobs", request);
    const written = async () => {
      const { body } = await server.call("GET", "/v1/events?limit=100");
      return body.data.filter(({ type }: { type: string }) => type === "volume_file.written").length - FILES - 1;
    };
    await until("some files to be written back", async () => (await written()) > round, 60_000);
    await server.kill("SIGKILL");
    expect(violations(dir)).toEqual([]);

    const again = await startBinary({ dir, key: await server.apiKey() });
    const states = await statesOf(again);
    expect(states).not.toContain("half");
    if (states.includes("old") && states.includes("new")) mixed++;
    await until(
      "the job to complete",
      async () => (await again.call("GET", `/v1/training_jobs/${job.id}`)).body.status === "completed",
      120_000,
    );
    expect(new Set(await statesOf(again))).toEqual(new Set(["new"]));
    expect((await again.call("GET", "/v1/volumes/out/files/added")).body).toBe("added");
    expect((await again.call("GET", "/v1/volumes/out/files/gone")).status).toBe(404);
    await again.kill("SIGTERM");
    rmSync(dir, { recursive: true, force: true });
  }
  expect(mixed).toBeGreaterThan(0); // otherwise no kill hit the middle
});
