import { afterEach, describe, expect, test } from "bun:test";
import { fakeClock } from "../../../../test/harness.ts";
import { ask, closeAll, fetchFile, refused, send, sha256, stored, volume } from "../../../../test/signed_kit.ts";

afterEach(closeAll);

describe("parts", () => {
  test("come in any order, one of them twice, and make one file", async () => {
    const app = await volume();
    const made = await ask(app, { parts: 3, size_bytes: 9, sha256: sha256("aaabbbccc"), content_type: "text/plain" });
    expect(made).toMatchObject({ url: null, complete_path: `/v1/volumes/lab/uploads/${made.id}/complete` });
    const part = (number: number, text: string) => send(app, made.parts[number - 1].url, text);
    expect((await part(3, "ccc")).body).toEqual({
      object: "upload.part",
      number: 3,
      size_bytes: 3,
      sha256: sha256("ccc"),
    });
    await part(1, "xxx");
    const early = await app.call("POST", made.complete_path);
    expect(early).toMatchObject(refused("upload_incomplete", 400));
    expect(early.body.error.message).toContain("1 of 3 parts have not arrived: 2");
    await part(2, "bbb");
    expect(await app.call("POST", made.complete_path)).toMatchObject(refused("sha256_mismatch", 422));
    await part(1, "aaa");
    const done = await app.call("POST", made.complete_path);
    expect(done).toMatchObject({ status: 201, body: { size_bytes: 9, sha256: sha256("aaabbbccc") } });
    expect((await fetchFile(app)).body).toBe("aaabbbccc");
    expect(await part(1, "zzz")).toMatchObject(refused("upload_used", 409));
    expect(await app.call("POST", made.complete_path)).toEqual({ ...done, status: 200, headers: expect.anything() });
    expect(await stored(app)).toEqual([sha256("aaabbbccc")]);
    await app.call("PUT", "/v1/volumes/lab/files/a.bin", undefined, { raw: "new" });
    expect(await app.call("POST", made.complete_path)).toMatchObject(refused("upload_used", 409));
  });

  test("are put together once, though several ask for it at once", async () => {
    const app = await volume();
    const made = await ask(app, { parts: 1 });
    await send(app, made.parts[0].url, "aaa");
    const answers = await Promise.all([1, 2, 3].map(() => app.call("POST", made.complete_path)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 201]);
    expect(await stored(app)).toEqual([sha256("aaa")]);
  });

  test("that were never completed go with the upload", async () => {
    const clock = fakeClock();
    const app = await volume({ clock });
    const made = await ask(app, { parts: 2 });
    await send(app, made.parts[0].url, "a");
    expect(await stored(app)).toHaveLength(1);
    clock.advance(3_601_000);
    expect(await stored(app)).toEqual([]);
  });

  test("are not more together than was announced, and belong to their number", async () => {
    const app = await volume();
    const made = await ask(app, { parts: 2, size_bytes: 4 });
    await send(app, made.parts[0].url, "abc");
    expect(await send(app, made.parts[1].url, "de")).toMatchObject(refused("payload_too_large", 413));
    const moved = made.parts[0].url.replace("/parts/1?", "/parts/2?");
    expect(await send(app, moved, "d")).toMatchObject(refused("invalid_signature", 403));
    expect((await send(app, made.parts[1].url, "d")).status).toBe(200);
    expect((await app.call("POST", made.complete_path)).status).toBe(201);
  });
});

describe("the quota", () => {
  const flags = { "volumes.quota_bytes": 10 };

  test("counts what is kept and what is announced, and names the numbers", async () => {
    const app = await volume({ flags });
    await app.call("PUT", "/v1/volumes/lab/files/kept", undefined, { raw: "1234" });
    const first = await ask(app, { path: "b", size_bytes: 5 });
    const over = await app.call("POST", "/v1/volumes/lab/upload-url", { path: "c", size_bytes: 2 });
    expect(over).toMatchObject({ status: 422, body: { error: { code: "quota_exceeded", param: "/size_bytes" } } });
    for (const number of ["10", "4", "5"]) expect(over.body.error.message).toContain(number);
    expect((await send(app, first.url, "12345")).status).toBe(201);
    expect((await app.call("PUT", "/v1/volumes/lab/files/d", undefined, { raw: "12" })).status).toBe(413);
    expect((await app.call("PUT", "/v1/volumes/lab/files/d", undefined, { raw: "1" })).status).toBe(201);
    expect(await app.call("PUT", "/v1/volumes/lab/files/e", undefined, { raw: "1" })).toMatchObject(
      refused("quota_exceeded", 422),
    );
    await app.call("DELETE", "/v1/volumes/lab/files/kept");
    expect((await app.call("PUT", "/v1/volumes/lab/files/e", undefined, { raw: "1" })).status).toBe(201);
  });

  test("counts parts that have arrived, without a stated total of bytes", async () => {
    const app = await volume({ flags });
    const made = await Promise.all(["a", "b"].map((path) => ask(app, { path, parts: 2 })));
    expect((await send(app, made[0].parts[0].url, "123456")).status).toBe(200);
    expect(await send(app, made[1].parts[0].url, "12345")).toMatchObject(refused("quota_exceeded", 422));
    expect((await send(app, made[1].parts[0].url, "1234")).status).toBe(200);
    expect((await send(app, made[0].parts[0].url, "12345")).status).toBe(200);
    expect((await send(app, made[0].parts[1].url, "1")).status).toBe(200);
    expect((await app.call("POST", made[0].complete_path)).status).toBe(201);
  });

  test("lets a file be replaced by one as large", async () => {
    const app = await volume({ flags });
    await app.call("PUT", "/v1/volumes/lab/files/a.bin", undefined, { raw: "1234567890" });
    const { url } = await ask(app, { size_bytes: 10 });
    expect((await send(app, url, "0987654321")).status).toBe(200);
  });

  test("holds when several come at once that did not say their size", async () => {
    const app = await volume({ flags });
    const urls = await Promise.all(["a", "b", "c"].map(async (path) => (await ask(app, { path })).url));
    const answers = await Promise.all(urls.map((url) => send(app, url, "123456")));
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, 422, 422]);
    expect((await app.call("GET", "/v1/volumes/lab")).body.total_bytes).toBe(6);
    expect(await stored(app)).toHaveLength(1);
  });
});
