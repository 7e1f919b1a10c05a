import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { sniff } from "../../src/lib/detection/sniff.ts";
import { readExif } from "../../src/workers/detector/origin/exif.ts";
import { readOrigin, type Written } from "../../src/workers/detector/origin/metadata.ts";

const image = () => sharp({ create: { width: 20, height: 20, channels: 3, background: "#123" } });
async function written(file: Buffer): Promise<Written> {
  const { exif, xmp, comments } = await sharp(file).metadata();
  return { exif, xmp: xmp?.toString(), comments };
}
const nothing = {
  software: null,
  camera: null,
  generator: null,
  digital_source_type: null,
  model: null,
  prompt: null,
};
const png = (keyword: string, text: string): Written => ({ comments: [{ keyword, text }] });
const PARAMETERS =
  "a castle\nNegative prompt: blurry\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 12, Size: 512x512, Model: x";

test("a camera and its software are read as a writer left them", async () => {
  const exif = { IFD0: { Make: "Canon", Model: "Canon EOS R5", Software: "Adobe Photoshop 26.9" } };
  const file = await image().withExif(exif).jpeg().toBuffer();
  expect(readOrigin(await written(file))).toEqual({
    ...nothing,
    software: "Adobe Photoshop 26.9",
    camera: "Canon EOS R5",
  });
  const other = await image()
    .withExif({ IFD0: { Make: "SONY", Model: "ILCE-7M4" } })
    .webp()
    .toBuffer();
  expect(readOrigin(await written(other)).camera).toBe("SONY ILCE-7M4");
});

test("an image without metadata gives no metadata", async () => {
  expect(readOrigin(await written(await image().png().toBuffer()))).toEqual(nothing);
  expect(readOrigin({})).toEqual(nothing);
});

describe("generators are recognised by their traces", () => {
  const xmp = (inner: string) => ({ xmp: `<x:xmpmeta><rdf:RDF><rdf:Description ${inner}</rdf:RDF></x:xmpmeta>` });
  test.each<[string, Written]>([
    ["Stable Diffusion web UI", png("parameters", PARAMETERS)],
    ["ComfyUI", png("prompt", '{"3": {"class_type": "KSampler", "inputs": {}}}')],
    ["ComfyUI", png("workflow", '{"last_node_id": 9, "nodes": []}')],
    ["InvokeAI", png("invokeai_metadata", "{}")],
    ["NovelAI", png("Software", "NovelAI")],
    ["SwarmUI", png("parameters", '{"sui_image_params": {"prompt": "x"}}')],
    ["Midjourney", png("Description", "a cat --v 6.0 Job ID: 01234567-89ab-cdef-0123-456789abcdef")],
    ["Adobe Firefly", xmp('xmp:CreatorTool="Adobe Firefly 1.0">')],
    ["Google AI", xmp("><photoshop:Credit>Made with Google AI</photoshop:Credit>")],
    [
      "declared as generated, tool not named",
      xmp('Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia">'),
    ],
  ])("%s", (tool, said) => expect(readOrigin(said).generator).toBe(tool));

  test("generators are recognised in the comment of a JPEG, in either byte order", async () => {
    const exif = { IFD2: { UserComment: PARAMETERS } };
    const file = await image().withExif(exif).jpeg().toBuffer();
    expect(readOrigin(await written(file)).generator).toBe("Stable Diffusion web UI");
  });

  test.each([
    ["a photo that was edited", png("Software", "GIMP 2.10")],
    ["a text about Midjourney", png("Title", "How to tell Midjourney from Firefly")],
    ["parameters of something else", png("parameters", "exposure=1/200")],
  ])("%s shows no generator", (_name, said) => expect(readOrigin(said).generator).toBeNull());
});

test("a hostile text does not keep the patterns busy", () => {
  for (const piece of ["Steps: 1, ", ":CreatorTool ", '"nodes" ', "DigitalSourceType>", "Job ID: 0123456789ab-"]) {
    const text = piece.repeat(200_000 / piece.length);
    const said = readOrigin({ xmp: text, comments: ["parameters", "workflow"].map((keyword) => ({ keyword, text })) });
    expect(said.generator).toBeNull();
  }
});

test("printed text has no control characters and a limited length", () => {
  const { software } = readOrigin(png("Software", `evil\u001b[31m\n${"x".repeat(5_000)}`));
  expect(software).toStartWith("evil [31m x");
  expect(software!.length).toBeLessThanOrEqual(120);
});

test("directories that loop, are wrong or end early are read as far as possible", () => {
  const tiff = Buffer.alloc(64);
  tiff.write("II*\0", 0, "latin1");
  tiff.writeUInt32LE(8, 4);
  tiff.writeUInt16LE(0xffff, 8);
  for (const [i, [tag, count, value]] of [
    [0x8769, 1, 8],
    [0x010f, 0xffffffff, 60],
    [0x0131, 3, 0x414243],
  ].entries()) {
    tiff.writeUInt16LE(tag!, 10 + i * 12);
    tiff.writeUInt16LE(2, 12 + i * 12);
    tiff.writeUInt32LE(count!, 14 + i * 12);
    tiff.writeUInt32LE(value!, 18 + i * 12);
  }
  expect(readExif(tiff).software).toBe("CBA");
  for (let end = 0; end < tiff.length; end++) readExif(tiff.subarray(0, end));
});

test("the bytes of a file decide its type", async () => {
  const is = (text: string) => sniff(Buffer.from(text, "latin1"))?.format ?? null;
  for (const format of ["jpeg", "png", "webp", "gif"] as const)
    expect(sniff(await image()[format]().toBuffer())?.format).toBe(format);
  expect([is("fLaC\0"), is("RIFF____WAVEfmt "), is("\xff\xfb\x90\x00"), is("ID3\x04\0\0\0\0\0\x02xxfLaC")]).toEqual([
    "flac",
    "wav",
    "mp3",
    "flac",
  ]);
  expect([is(""), is("RIFF____AVI "), is("<svg/>"), is("\xff\xff\xff"), is("\xff\xd8")]).toEqual([
    null,
    null,
    null,
    null,
    null,
  ]);
});
