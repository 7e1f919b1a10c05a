/**
 * Reads a file's own claims about its origin, as cameras, editors and generators write them. They are not proof: anyone
 * can write them.
 */
import { type Exif, readExif } from "./exif.ts";
import { readSettings, type Settings } from "./programs.ts";

export type Origin = Settings & {
  software: string | null;
  camera: string | null;
  generator: string | null;
  /** A name of IPTC's vocabulary, from XMP. */
  digital_source_type: string | null;
};
export type Written = {
  exif?: Uint8Array | undefined;
  xmp?: string | undefined;
  /** Text chunks of a PNG. */
  comments?: readonly { keyword: string; text: string }[] | undefined;
};

const MAX_TEXT = 120;
const MAX_SEARCHED = 200_000;

type Said = { exif: Exif; xmp: string; comments: ReadonlyMap<string, string>; parameters: string };
type Sign = readonly [tool: string, isThere: (said: Said) => boolean];

const has =
  (...names: string[]) =>
  ({ comments }: Said) =>
    names.some((name) => comments.has(name));
const hasParameters =
  (pattern: RegExp) =>
  ({ parameters }: Said) =>
    pattern.test(parameters);

/** The first rule that matches names the tool. */
// biome-ignore format: a table should look like one
const SIGNS: readonly Sign[] = [
  ["SwarmUI",                   hasParameters(/"sui_image_params"/)],
  ["Fooocus",                   (said) => said.comments.has("fooocus_scheme") || /"?Version"?: ?"?Fooocus/.test(said.parameters)],
  ["Stable Diffusion web UI",   hasParameters(/\bSteps: \d{1,6}, .{0,300}\b(Sampler|CFG scale|Seed): /s)],
  ["ComfyUI",                   ({ comments }) => /"class_type"/.test(comments.get("prompt") ?? "") || /"nodes"\s*:/.test(comments.get("workflow") ?? "")],
  ["InvokeAI",                  has("invokeai_metadata", "invokeai_graph", "invokeai_workflow", "sd-metadata", "dream")],
  ["Easy Diffusion",            has("use_stable_diffusion_model", "stable_diffusion_model")],
  ["Draw Things",               ({ xmp }) => /\bDraw Things\b/.test(xmp)],
  ["Midjourney",                ({ comments, exif, xmp }) => /\bJob ID: [0-9a-f-]{36}/.test(`${comments.get("description") ?? ""} ${exif.description ?? ""} ${xmp}`)],
  ["Google AI",                 ({ xmp }) => /Made with Google AI|Edited with Google AI/.test(xmp)],
];

/** Names of generators in the fields where programs name themselves. */
// biome-ignore format: a table should look like one
const NAMES: readonly (readonly [tool: string, pattern: RegExp])[] = [
  ["NovelAI", /\bNovelAI\b/i], ["Adobe Firefly", /\bFirefly\b/i], ["DALL·E", /\bDALL[·\s-]?E\b/i], ["Midjourney", /\bMidjourney\b/i],
  ["Stable Diffusion", /\bStable[\s_-]?Diffusion\b/i], ["Ideogram", /\bIdeogram\b/i], ["Leonardo", /\bLeonardo\.?\s?AI\b/i],
  ["FLUX", /\bFLUX\.?1\b|\bBlack Forest Labs\b/i], ["InvokeAI", /\bInvokeAI\b/i], ["ComfyUI", /\bComfyUI\b/i],
  ["ChatGPT", /\bChatGPT\b|\bOpenAI\b/i], ["Imagen", /\bGoogle Imagen\b|\bImagen \d/i], ["Bing Image Creator", /\bBing Image Creator\b|\bMicrosoft Designer\b/i],
  ["Recraft", /\bRecraft\b/i], ["mflux", /\bmflux\b/i], ["Playground", /\bPlayground AI\b/i], ["Grok", /\bGrok\b/i],
];
const SOURCE_TYPE = /DigitalSourceType[^<>]{0,40}[>"'][^<>"']{0,120}\/([A-Za-z]{3,60})\b/;
const IS_DECLARED = /^(compositeWithT|t)rainedAlgorithmicMedia$/;

export function readOrigin({ exif: exifBytes, xmp: xmpText = "", comments: list = [] }: Written): Origin {
  const exif = exifBytes ? readExif(exifBytes) : {};
  const xmp = xmpText.slice(0, MAX_SEARCHED);
  const comments = new Map(list.map(({ keyword, text }) => [keyword.toLowerCase(), text.slice(0, MAX_SEARCHED)]));
  const parameters = comments.get("parameters") ?? exif.comment ?? "";
  const said: Said = { exif, xmp, comments, parameters };
  const software = tidy(exif.software) ?? tidy(xmpField(xmp, "CreatorTool")) ?? tidy(comments.get("software"));
  const type = SOURCE_TYPE.exec(xmp)?.[1] ?? null;
  const generator = generatorOf(said) ?? (type && IS_DECLARED.test(type) ? DECLARED_ONLY : null);
  const found = readSettings(generator, { comments, parameters, note: plainText(xmpField(xmp, "UserComment") ?? "") });
  return { software, camera: cameraOf(exif), generator, digital_source_type: type, ...found };
}

const DECLARED_ONLY = "declared as generated, tool not named";

function generatorOf(said: Said): string | null {
  const sign = SIGNS.find(([, isThere]) => isThere(said));
  if (sign) return sign[0];
  const { exif, xmp, comments } = said;
  const fields = [exif.software, exif.make, exif.artist, comments.get("software"), comments.get("source")];
  const named = [...fields, xmpField(xmp, "CreatorTool"), xmpField(xmp, "Credit")].join("\n");
  return NAMES.find(([, pattern]) => pattern.test(named))?.[0] ?? null;
}

const ENTITIES: Readonly<Record<string, string>> = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&" };
/** The text of an element of XML. */
const plainText = (xml: string) =>
  xml.replaceAll(/&(quot|apos|lt|gt|amp);/g, (_, name: string) => ENTITIES[name] ?? "");

function cameraOf({ make, model }: Exif): string | null {
  const [maker, body] = [tidy(make), tidy(model)];
  if (maker && body && !body.toLowerCase().startsWith(maker.toLowerCase())) return tidy(`${maker} ${body}`);
  return body ?? maker;
}

/** Finds an attribute or an element; the writer chooses the name space prefix. */
function xmpField(xmp: string, name: string): string | undefined {
  const match = new RegExp(
    `:${name}(?:\\s*=\\s*["']([^"']{1,9000})|>(?:\\s*<rdf:[^>]{1,80}>){0,2}([^<]{1,9000}))`,
  ).exec(xmp);
  return match?.[1] ?? match?.[2];
}

function tidy(text: string | undefined): string | null {
  const clean = text
    ?.replace(/\p{Cc}+/gu, " ")
    .trim()
    .slice(0, MAX_TEXT);
  return clean ? clean : null;
}
