import { expect, test } from "bun:test";
import { join } from "node:path";

test("an interrupted wait does not keep the process", async () => {
  const script = `
    import { ApiError } from ${JSON.stringify(join(import.meta.dir, "../client.ts"))};
    import { withRetries } from ${JSON.stringify(join(import.meta.dir, "retry.ts"))};
    const stop = new AbortController();
    let [tries, at] = [0, 0];
    process.on("exit", () => console.log(performance.now() - at));
    const away = async () => {
      if (++tries === 4) setImmediate(() => ((at = performance.now()), stop.abort())); // then it waits for 2 s
      throw new ApiError("away", 0);
    };
    await withRetries(stop.signal, away).catch(() => {});
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  expect(Number(await new Response(child.stdout).text())).toBeWithin(0.001, 1000);
});
