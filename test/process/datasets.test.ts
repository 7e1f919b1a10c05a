// tier: all (whole paths on the executable)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { until } from "../harness.ts";
import { sweep } from "../sweep.ts";

let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;
beforeAll(async () => {
  server = await startBinary();
  key = (await makeKey(server.dir)).key;
});
afterAll(async () => {
  await server.kill("SIGTERM");
  rmSync(server.dir, { recursive: true, force: true });
});

const rssMib = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) / 1024;
const files = () => readdirSync(join(server.dir, "datasets"));
const PER_PIECE = 1000;
/** Either is 280 MB, more than the memory that is allowed. Fewer rows are parsed faster. */
const ROWS = sweep({ quick: 600_000, full: 2_000_000 });
const FILLER = "x".repeat(sweep({ quick: 430, full: 100 }));
/** A number of the last line but one, in an upload that measures no memory. */
const BAD_LINE = sweep({ quick: 199_999, full: 1_999_999 });

/** A form whose file is made while it is sent: `lines` rows with FILLER, and a bad one at `badLine`. */
function formOf(lines: number, badLine = 0): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let line = 0;
  return new ReadableStream({
    start: (controller) =>
      controller.enqueue(
        encoder.encode(
          '--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nbig\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n',
        ),
      ),
    pull(controller) {
      let text = "";
      for (let i = 0; i < PER_PIECE && line < lines; i++) {
        line++;
        text +=
          line === badLine ? '{"prompt":"cut off\n' : `{"prompt":"row ${line} ${FILLER}","answer":"${line * 7}"}\n`;
      }
      if (text !== "") return controller.enqueue(encoder.encode(text));
      controller.enqueue(encoder.encode("\r\n--b--\r\n"));
      controller.close();
    },
  });
}

async function upload(form: ReadableStream<Uint8Array>) {
  const response = await fetch(`${server.url}/v1/datasets`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=b" },
    body: form,
  });
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server answered
  return { status: response.status, body: (await response.json()) as any };
}

describe("a large upload", () => {
  test("goes to the disk while it arrives: memory stays flat, and the export equals the upload", async () => {
    const before = rssMib();
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, rssMib());
    }, 20);
    const { status, body } = await upload(formOf(ROWS));
    clearInterval(watch);
    expect(status).toBe(201);
    expect(body).toMatchObject({ num_rows: ROWS, format: "prompt" });
    expect(body.size_bytes).toBeGreaterThan(280_000_000);
    expect(most - before).toBeLessThan(200);
    const out = await fetch(`${server.url}/v1/datasets/${body.id}/rows/export`, {
      headers: { authorization: `Bearer ${key}` },
    });
    let bytes = 0;
    for await (const chunk of out.body!) bytes += chunk.byteLength;
    expect(bytes).toBe(body.size_bytes);
    await fetch(`${server.url}/v1/datasets/${body.id}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${key}` },
    });
  }, 120_000);

  test(`with a bad line ${BAD_LINE} is refused by that number and leaves nothing behind`, async () => {
    const { status, body } = await upload(formOf(BAD_LINE + 1, BAD_LINE));
    expect(status).toBe(422);
    expect(body.error).toMatchObject({ type: "validation_error", code: "schema", param: "file" });
    expect(body.error.message).toStartWith(`Line ${BAD_LINE}: it is not valid JSON`);
    expect(files().filter((name) => name.startsWith(".verk-tmp"))).toEqual([]);
    const list = await fetch(`${server.url}/v1/datasets`, { headers: { authorization: `Bearer ${key}` } });
    expect((await list.json()) as object).toMatchObject({ data: [] });
  }, 120_000);

  test("whose client leaves in the middle leaves nothing behind", async () => {
    const leave = new AbortController();
    let pieces = 0;
    const form = formOf(10_000_000).pipeThrough(
      new TransformStream({
        transform(chunk, controller) {
          if (++pieces === 300) leave.abort();
          controller.enqueue(chunk);
        },
      }),
    );
    const outcome = await fetch(`${server.url}/v1/datasets`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=b" },
      body: form,
      signal: leave.signal,
    }).catch((error: Error) => error.name);
    expect(outcome).toBe("AbortError");
    await until("the server to learn of it and clean up", () => files().length === 0);
    // An open file still takes space on the disk.
    await until("the file to be closed", () => {
      const held = readdirSync(`/proc/${server.pid}/fd`).map((fd) => readlinkSync(`/proc/${server.pid}/fd/${fd}`));
      return !held.some((path) => path.includes(".verk-tmp"));
    });
  }, 120_000);
});

test("a line of 64 MB is refused by its number, long before it is complete", async () => {
  const encoder = new TextEncoder();
  let sent = 0;
  const form = new ReadableStream<Uint8Array>({
    start: (controller) =>
      controller.enqueue(
        encoder.encode(
          '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{"prompt":"ok"}\n{"prompt":"',
        ),
      ),
    pull(controller) {
      sent += 1 << 20;
      controller.enqueue(new Uint8Array(1 << 20).fill(120));
      if (sent >= 64 << 20) controller.close();
    },
  });
  const { status, body } = await upload(form);
  expect(status).toBe(422);
  expect(body.error.message).toBe("Line 2: it is longer than 16777216 bytes");
  expect(sent).toBeLessThan(64 << 20);
});
