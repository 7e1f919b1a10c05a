import { afterAll, beforeAll, expect, test } from "bun:test";
import { bytesOf, clipOf, type DetectingApp, detecting, imageOf } from "../../../../test/detection_kit.ts";
import { sha256Bytes } from "../../../platform/files.ts";

const MOST_BYTES = 4096;
let app: DetectingApp;
beforeAll(() => {
  app = detecting({ flags: { "detect.max_image_bytes": MOST_BYTES } });
});
afterAll(() => app.close().then(app.remove));

const formOf = (fields: Record<string, string | Uint8Array>) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    if (typeof value === "string") form.set(name, value);
    else form.set(name, new File([new Uint8Array(value)], "photo.jpg", { type: "image/jpeg" }));
  return form;
};
const post = (raw: string | Uint8Array | FormData, headers: Record<string, string> = {}, path = "/api/detect") =>
  app.call("POST", path, undefined, { raw: raw instanceof Uint8Array ? new Uint8Array(raw) : raw, headers });

test("F6 form: a photo as a file, with options as fields, on both paths", async () => {
  for (const path of ["/api/detect", "/v1/detect"]) {
    const image = bytesOf({ score: 0.9 });
    const form = formOf({ image, models: "detector_v0, detector_v1", robustness: "true" });
    const { status, body } = await post(form, {}, path);
    expect([status, body.imageHash]).toEqual([200, sha256Bytes(image)]);
    expect(Object.keys(body.model_results)).toEqual(["detector_v0", "detector_v1"]);
    expect(body.signals.robustness).not.toBeNull();
  }
});

test("F6 form: a recording as a file, and base64 text as in JSON", async () => {
  const clip = await post(formOf({ audio: Buffer.from(clipOf(), "base64") }));
  expect([clip.status, Object.keys(clip.body.model_results)]).toEqual([200, ["detector_audio_v0"]]);
  expect((await post(formOf({ image: imageOf(), model: "detector_v1" }))).body.model_results).toHaveProperty(
    "detector_v1",
  );
});

test.each(["image/jpeg", "image/png; x=y", "application/octet-stream", "audio/wav"])(
  "F6 bytes: the file alone as %s, with options in the query",
  async (type) => {
    const bytes = type.startsWith("audio") ? Buffer.from(clipOf(), "base64") : bytesOf();
    const plain = await post(bytes, { "content-type": type });
    expect([plain.status, plain.body.imageHash]).toEqual([200, sha256Bytes(bytes)]);
    if (type.startsWith("audio")) return;
    const options = "?models=detector_v0,detector_v1&robustness=1";
    const { body } = await post(bytesOf(), { "content-type": type }, `/api/detect${options}`);
    expect([body.models_total, body.signals.robustness === null]).toEqual([2, false]);
  },
);

const large = () => Buffer.concat([bytesOf(), Buffer.alloc(MOST_BYTES)]);
const JPEG = { "content-type": "image/jpeg" };

test.each([
  ["a form without a file", () => post(formOf({ model: "detector_v0" })), 400, "INVALID_REQUEST", "image"],
  ["an empty file", () => post(formOf({ image: new Uint8Array() })), 400, "INVALID_REQUEST", "image"],
  ["two files", () => post(formOf({ image: bytesOf(), audio: bytesOf() })), 400, "INVALID_REQUEST", "one file"],
  ["a file in another field", () => post(formOf({ photo: bytesOf() })), 400, "INVALID_REQUEST", "photo"],
  ["a file that is too large", () => post(formOf({ image: large() })), 413, "IMAGE_TOO_LARGE", "4096"],
  ["bytes that are too many", () => post(large(), JPEG), 413, "IMAGE_TOO_LARGE", "4096"],
  ["a form that is far too large", () => post(formOf({ image: new Uint8Array(200_000) })), 413, "IMAGE_TOO_LARGE", ""],
  ["no bytes", () => post("", JPEG), 400, "INVALID_REQUEST", "image"],
  ["another kind of file", () => post("BM....", JPEG), 415, "UNSUPPORTED_FORMAT", "JPEG"],
  ["an unknown model", () => post(bytesOf(), JPEG, "/api/detect?model=gpt"), 400, "UNKNOWN_MODEL", "gpt"],
  [
    "a mistyped field",
    () => post(formOf({ image: bytesOf(), modle: "detector_v0" })),
    400,
    "INVALID_REQUEST",
    "Did you mean model?",
  ],
  ["both options", () => post(formOf({ image: bytesOf(), model: "a", models: "b" })), 400, "INVALID_REQUEST", "models"],
  [
    "an option of another kind",
    () => post(formOf({ image: bytesOf(), robustness: "maybe" })),
    400,
    "INVALID_REQUEST",
    "robustness",
  ],
  [
    "another media type",
    () => post("image=1", { "content-type": "text/plain" }),
    415,
    "UNSUPPORTED_MEDIA_TYPE",
    "multipart/form-data",
  ],
  [
    "a form that breaks off",
    () => post("--x\r\n", { "content-type": "multipart/form-data; boundary=x" }),
    400,
    "INVALID_REQUEST",
    "multipart",
  ],
] as const)("F6 %s", async (_name, send, status, code, words) => {
  expect(await send()).toMatchObject({ status, body: { code, error: expect.stringContaining(words) } });
  expect(app.ctx.state.http.bodyMemory.bytes).toBe(0);
});
