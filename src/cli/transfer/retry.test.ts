import { expect, test } from "bun:test";
import { join } from "node:path";

test("an interrupted wait does not keep the process", async () => {
  const script = `
    import { ApiError } from ${JSON.stringify(join(import.meta.dir, "../client.ts"))};
    import { withRetries } from ${JSON.stringify(join(import.meta.dir, "retry.ts"))};
    const stop = new AbortController();
    const away = async () => {
      setImmediate(() => stop.abort()); // it waits by then
      throw new ApiError("away", 0);
    };
    await withRetries(stop.signal, away, [86_400_000]).catch(({ name }) => console.log(name));
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  expect(await new Response(child.stdout).text()).toBe("AbortError\n");
  expect(await child.exited).toBe(0);
});
