import { describe, expect, test } from "bun:test";
import { readMultipart } from "./multipart.ts";

const read = async (body: BodyInit, headers?: Record<string, string>, maxFileBytes = 1 << 20) => {
  const files: { name: string; filename: string; text: string }[] = [];
  const fields = await readMultipart(
    new Request("http://localhost/", { method: "POST", body, ...(headers ? { headers } : {}) }),
    {
      maxFileBytes,
      minBytesPerSecond: 0,
      onFile: async ({ name, filename, stream }) => {
        const parts: Uint8Array[] = [];
        for await (const chunk of stream) parts.push(chunk);
        files.push({ name, filename, text: Buffer.concat(parts).toString() });
      },
    },
  );
  return { fields, files };
};
const form = (entries: Record<string, string | Blob>) => {
  const made = new FormData();
  for (const [name, value] of Object.entries(entries)) made.append(name, value as string);
  return made;
};
const failing = (promise: Promise<unknown>) =>
  promise.then(
    () => "nothing",
    (error) => `${error.code}: ${error.message}`,
  );

describe("a multipart body", () => {
  test("gives its fields and its files in any order", async () => {
    const file = new File(["a\nb\n"], "rows.jsonl");
    for (const body of [form({ name: "x", file }), form({ file, name: "x" })])
      expect(await read(body)).toEqual({
        fields: { name: "x" },
        files: [{ name: "file", filename: "rows.jsonl", text: "a\nb\n" }],
      });
  });

  test("holds an empty file, and two files one after the other", async () => {
    const { files } = await read(form({ a: new File([], "a"), b: new File(["x".repeat(300_000)], "b") }));
    expect(files.map(({ text }) => text.length)).toEqual([0, 300_000]);
  });

  test("that is over its limit, cut off, without a boundary or of another type is refused with the reason", async () => {
    const large = form({ file: new File(["x".repeat(2000)], "a") });
    expect(await failing(read(large, undefined, 1000))).toStartWith("payload_too_large: The file is larger than 1000");
    const type = { "content-type": "multipart/form-data; boundary=b" };
    const cut = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf';
    expect(await failing(read(cut, type))).toStartWith("invalid_request: The multipart body cannot be read");
    expect(await failing(read("", type))).toStartWith("invalid_request");
    expect(await failing(read("x", { "content-type": "multipart/form-data" }))).toStartWith("unsupported_media_type");
    expect(await failing(read("{}", { "content-type": "application/json" }))).toStartWith("unsupported_media_type");
  });

  test("that ends badly ends the reader of its file before the failure is reported", async () => {
    const type = { "content-type": "multipart/form-data; boundary=b" };
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf';
    const broken = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(part)),
      pull: (controller) => controller.error(new Error("the client has gone")),
    });
    const silent = new ReadableStream({ start: (c) => c.enqueue(new TextEncoder().encode(part)) });
    for (const body of [broken, silent, `${part}\r\n${part}`]) {
      const readers = { begun: 0, ended: 0 };
      const request = new Request("http://localhost/", { method: "POST", body, headers: type });
      const reading = readMultipart(request, {
        maxFileBytes: 1000,
        minBytesPerSecond: 0,
        silenceMs: 50,
        onFile: async ({ stream }) => {
          readers.begun++;
          try {
            for await (const _ of stream);
            for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate); // the next is cut off meanwhile
          } finally {
            readers.ended++;
          }
        },
      });
      expect(await failing(reading)).not.toBe("nothing");
      expect(readers.begun).toBeGreaterThan(0);
      expect(readers.ended).toBe(readers.begun); // a second reader may begin on a busy machine
    }
  });

  test("a repeated field is refused", async () => {
    const twice = form({ name: "a" });
    twice.append("name", "b");
    expect(await failing(read(twice))).toContain("name is there twice");
  });

  test("an error of the receiver of a file reaches the caller, and the rest is not read", async () => {
    let pulled = 0;
    const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
    const endless = new ReadableStream({
      pull(controller) {
        pulled++;
        controller.enqueue(new TextEncoder().encode(pulled === 1 ? head : "x".repeat(65_536)));
      },
    });
    const request = new Request("http://localhost/", {
      method: "POST",
      body: endless,
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    const heard = await failing(
      readMultipart(request, {
        maxFileBytes: 1 << 30,
        minBytesPerSecond: 0,
        async onFile({ stream }) {
          for await (const _ of stream) throw Object.assign(new Error("bad line"), { code: "schema" });
        },
      }),
    );
    expect(heard).toBe("schema: bad line");
    expect(pulled).toBeLessThan(50);
  });

  test("S7: a sender that drips is cut off", async () => {
    const type = { "content-type": "multipart/form-data; boundary=b" };
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
    const dripping = (end: Promise<void>) =>
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(part)),
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 5));
          controller.enqueue(new TextEncoder().encode("x"));
          if (await Promise.race([end.then(() => true), false])) controller.close();
        },
      });
    const over = Promise.withResolvers<void>();
    const body = dripping(over.promise);
    const request = new Request("http://localhost/", { method: "POST", body, headers: type });
    const options = { maxFileBytes: 1 << 20, minBytesPerSecond: 10_000, windowMs: 200 };
    const reading = readMultipart(request, {
      ...options,
      onFile: async ({ stream }) => {
        for await (const _ of stream);
      },
    });
    expect(await failing(reading)).toContain("less than http.min_upload_bytes_per_second");
    over.resolve();
  });
});
