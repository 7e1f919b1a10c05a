/** Two hundred made files of six programs, whole and damaged: settings are read or ignored. */
import { expect, test } from "bun:test";
import sharp from "sharp";
import { readOrigin } from "../../src/workers/detector/origin/metadata.ts";
import { pngChunk } from "./mutations.ts";

type Text = readonly [keyword: string, text: string];
type Made = { program: string; texts: readonly Text[]; xmp?: string; model: string | null; prompt: string };

const blank = await sharp({ create: { width: 8, height: 8, channels: 3, background: "#345" } })
  .png()
  .toBuffer();
const chunk = ([keyword, text]: Text) => pngChunk("tEXt", Buffer.from(`${keyword}\0${text}`, "latin1"));
const international = ([keyword, text]: Text) => pngChunk("iTXt", Buffer.from(`${keyword}\0\0\0\0\0${text}`));
const pngOf = ({ texts, xmp }: Pick<Made, "texts" | "xmp">) =>
  Buffer.concat([
    blank.subarray(0, 33),
    ...texts.map(chunk),
    ...(xmp === undefined ? [] : [international(["XML:com.adobe.xmp", xmp])]),
    blank.subarray(33),
  ]);

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

/** Each program writes in its own way, and in older ways. */
const WRITERS: readonly ((prompt: string, model: string) => Made)[] = [
  (prompt, model) => ({
    program: "Stable Diffusion web UI",
    texts: [
      [
        "parameters",
        `${prompt}\nNegative prompt: blurry, Model: no\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1, Model hash: ab, Model: ${model}, Version: v1`,
      ],
    ],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "ComfyUI",
    texts: [
      [
        "prompt",
        JSON.stringify({
          "3": { class_type: "KSampler", inputs: { positive: ["9", 0], negative: ["7", 0], model: ["4", 0] } },
          "4": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: model } },
          "6": { class_type: "CLIPTextEncode", inputs: { text: prompt } },
          "7": { class_type: "CLIPTextEncode", inputs: { text: `not this, and longer ${"x".repeat(80)}` } },
          "9": { class_type: "FluxGuidance", inputs: { conditioning: ["6", 0] } },
        }),
      ],
      ["workflow", '{"nodes": []}'],
    ],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "InvokeAI",
    texts: [["invokeai_metadata", JSON.stringify({ positive_prompt: prompt, model: { name: model } })]],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "InvokeAI",
    texts: [["sd-metadata", JSON.stringify({ model_weights: model, image: { prompt: [{ prompt, weight: 1 }] } })]],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "NovelAI",
    texts: [
      ["Software", "NovelAI"],
      ["Source", model],
      ["Description", prompt],
      ["Comment", JSON.stringify({ prompt, steps: 28 })],
    ],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "Fooocus",
    texts: [
      ["fooocus_scheme", "fooocus"],
      ["parameters", JSON.stringify({ prompt, base_model: model, version: "Fooocus v2.5" })],
    ],
    model,
    prompt,
  }),
  (prompt, model) => ({
    program: "Draw Things",
    texts: [],
    xmp: `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description xmp:CreatorTool="Draw Things"><exif:UserComment><rdf:Alt><rdf:li xml:lang="x-default">${escaped(JSON.stringify({ c: prompt, model }))}</rdf:li></rdf:Alt></exif:UserComment></rdf:Description></rdf:RDF></x:xmpmeta>`,
    model,
    prompt,
  }),
];

async function originOf(file: Buffer) {
  const { exif, xmp, comments } = await sharp(file).metadata();
  return readOrigin({ exif, xmp: xmp?.toString(), comments });
}

const made = Array.from({ length: 203 }, (_, i) =>
  WRITERS[i % WRITERS.length]!(`a castle "number" ${i}, <night> & rain`, `model_${i}.safetensors`),
);

test("each of 203 files gives its program, model and prompt", async () => {
  for (const { program, model, prompt, ...file } of made)
    expect(await originOf(pngOf(file))).toMatchObject({ generator: program, model, prompt });
});

test("a damaged text gives no settings or short ones, and never an error", () => {
  let state = 7;
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state % below;
  };
  let ignored = 0;
  for (const { texts, xmp = "" } of made) {
    const damage = (text: string) => {
      const at = random(text.length + 1);
      return [text.slice(0, at), text.slice(at), `${text.slice(0, at)}{"[${text.slice(at)}`, text.repeat(3)][
        random(4)
      ]!;
    };
    const comments = texts.map(([keyword, text]) => ({ keyword, text: damage(text) }));
    const { model, prompt } = readOrigin({ comments, xmp: xmp && damage(xmp) });
    if (model === null) ignored++;
    expect(model?.length ?? 0).toBeLessThanOrEqual(120);
    expect(prompt?.length ?? 0).toBeLessThanOrEqual(2_000);
  }
  expect(ignored).toBeGreaterThan(20);
});

test("a graph of nodes that loops, is deep or has other types is ignored", () => {
  const read = (nodes: unknown) => readOrigin({ comments: [{ keyword: "prompt", text: JSON.stringify(nodes) }] });
  const loop = { "1": { class_type: "KSampler", inputs: { positive: ["1", 0] } } };
  expect(read(loop)).toMatchObject({ generator: "ComfyUI", model: null, prompt: null });
  expect(read({ "1": { class_type: "x", inputs: 7 }, "2": null, "3": [] })).toMatchObject({
    model: null,
    prompt: null,
  });
  const long = { "1": { class_type: "CLIPTextEncode", inputs: { text: `a\u0007b ${"x".repeat(9_000)}` } } };
  expect(read(long).prompt).toHaveLength(2_000);
  expect(read(long).prompt).toStartWith("a b x");
});
