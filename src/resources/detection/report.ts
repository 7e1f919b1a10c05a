/** A signed report of one detection as a page that can be printed, for people who did not see the answer. */
import type { Ctx } from "../../context.ts";
import { signatureWords } from "../../lib/detection/signature_words.ts";
import { signReport } from "../../lib/detection/signed_report.ts";
import { type Detection, present } from "./schema.ts";
import type { DetectionRow } from "./table.ts";

/** Escapes text for HTML. Every value of a file goes through it. */
const text = (value: string | number): string =>
  String(value).replaceAll(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

const MEANING: Readonly<Record<Detection["prediction"], string>> = {
  ai: "Generated. In tests, 95 of 100 files at this score or above were generated.",
  likely_ai:
    "Likely generated. In tests, about 5 of 100 real pictures of any kind, or recordings, reached this score at most.",
  uncertain: "Uncertain. The file cannot be decided from its pixels or its sound.",
  likely_real: "Likely real. Real files are the majority at this score; it clears no file.",
  real: "Real. Most files at this score are real; it clears no file.",
};

/** The figures are in `docs/detection.md`, "When to abstain". */
const ABSTENTION_OF_SPEECH =
  "Call a recording generated from a score of 0.55 on, and say nothing below. Of 750 recorded clips of five sources that the model did not know, 1.7 of 100 reached it, and 8.7 of 100 of the worst source. Five sources show little: for a new one, expect at most 18 of 100 (conformal bound over sources). The rule finds about four in ten generated clips.";
const ABSTENTION =
  "Call a picture generated from a score of 0.55 on, and say nothing below. Of 326 real pictures of 13 sources that the models did not know, 0.6 of 100 reached it. For a new source like these, expect at most 7.9 of 100 (conformal bound over sources); film posters are called generated more often. The rule finds about a third of the generated pictures.";

const VIEWS: Readonly<Record<string, string>> = {
  original: "As it is",
  jpeg_80: "JPEG, quality 80",
  jpeg_60: "JPEG, quality 60",
  webp_70: "WebP, quality 70",
  "scale_0.75": "Three quarters of the size",
  "scale_0.5": "Half the size",
};

const STYLE = `@page{size:A4;margin:18mm}
body{font:14px/1.5 system-ui,sans-serif;color:#111;background:#fff;max-width:46rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;border-bottom:1px solid #ddd}
th{font-weight:600;width:13rem}td{overflow-wrap:anywhere}
.score{font-size:2.4rem;font-weight:700;margin:.4rem 0 0}
.map{max-width:100%;border:1px solid #bbb;image-rendering:auto}
section,tr,img{break-inside:avoid}
@media print{body{margin:0;max-width:none;padding:0}}`;

type Row = readonly [name: string, value: string | number | null | undefined];

/** Rows without a value are left out. */
function table(rows: readonly Row[]): string {
  const shown = rows.flatMap(([name, value]) =>
    value === null || value === undefined || value === ""
      ? []
      : [`<tr><th>${text(name)}</th><td>${text(value)}</td></tr>`],
  );
  return `<table>${shown.join("")}</table>`;
}

const section = (title: string, content: string) =>
  content === "" ? "" : `<section><h2>${text(title)}</h2>${content}</section>`;
const score = (value: number) => value.toFixed(3);

/** `seed` signs. The same detection gives the same report. */
export function reportOf(row: DetectionRow, appVersion: string, seed: Uint8Array): string {
  const detection = present(row);
  const { image, audio, signals, heatmap } = detection;
  const size = image ? `${image.width} × ${image.height} pixels` : `${audio?.seconds.toFixed(1)} seconds`;
  const file = image ?? audio;
  const body = [
    "<h1>Detection report</h1>",
    `<p>Was this ${image ? "image" : "recording"} generated? The score is evidence about pixels or sound. It proves nothing about a person.</p>`,
    `<p class="score">${score(detection.ensemble_score)}</p><p>${text(MEANING[detection.prediction])}</p>`,
    detection.reason === null ? "" : `<p>${text(detection.reason)}.</p>`,
    section(
      "File",
      table([
        ["SHA-256", detection.imageHash],
        ["Format", file && `${file.format}, ${size}, ${file.sizeBytes} bytes`],
        ["Detection", detection.id],
        ["Time", detection.timestamp],
      ]),
    ),
    section("Evidence", `<p>${text(signals.summary)}</p>${evidence(detection)}`),
    section("After re-encoding", reencoding(detection)),
    section("When to abstain", `<p>${text(image ? ABSTENTION : ABSTENTION_OF_SPEECH)}</p>`),
    heatmap
      ? section(
          "Map",
          `<img class="map" alt="Map of scores over the image" src="data:image/png;base64,${text(heatmap.png)}"><p>Red squares look generated, blue ones real; pale ones are undecided. The score of one square is weaker than that of the image. The picture itself is not stored.</p>`,
        )
      : "",
    section("Method", method(detection, appVersion)),
  ].join("\n");
  const title = `Detection report ${text(detection.id)}`;
  return signReport(
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>${STYLE}</style></head><body>\n${body}\n</body></html>`,
    seed,
  );
}

function evidence({ declared, signals: { c2pa, metadata, watermark } }: Detection): string {
  return table([
    ["Declared as generated", declared === "none" ? "no" : `yes (${declared})`],
    ["Watermark", watermark && `${watermark.generator}, ${Math.round(watermark.agreement * 100)} % of the bits`],
    ["Content credentials", c2pa && (c2pa.signature ? signatureWords(c2pa.signature) : "present, not signed")],
    ["Fits the bytes of the file", c2pa && (c2pa.hash_valid === null ? "not known" : c2pa.hash_valid ? "yes" : "no")],
    ["Source type", c2pa?.digital_source_type ?? metadata.digital_source_type],
    ["Generator", c2pa?.generator ?? metadata.generator],
    ["Model", metadata.model],
    ["Prompt", metadata.prompt],
    ["Software", metadata.software],
    ["Camera", metadata.camera],
  ]);
}

function reencoding({ signals: { robustness } }: Detection): string {
  if (!robustness) return "";
  const side = robustness.flips ? "The score crosses one half." : "The score stays on its side of one half.";
  return `${table(robustness.views.map(({ view, score: value }): Row => [VIEWS[view] ?? view, score(value)]))}<p>${side} These are scores of the models, without evidence.</p>`;
}

function method({ model_results: models, modelVersions, pixel_score }: Detection, appVersion: string): string {
  const rows = Object.entries(models).map(([name, result]): Row => {
    const version = modelVersions[name as keyof typeof modelVersions] ?? "";
    return [`${name} ${version}`, result?.status === "success" ? score(result.score) : (result?.error ?? "failed")];
  });
  return table([...rows, ["Mean of the models", score(pixel_score)], ["Verk", appVersion]]);
}

const LABEL = "detection reports";

export function sendReport(ctx: Pick<Ctx, "secrets">, row: DetectionRow, appVersion: string): Response {
  return new Response(reportOf(row, appVersion, ctx.secrets.derive(LABEL)), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-disposition": `inline; filename="${row.id}.html"`,
      "content-security-policy": "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
      "cache-control": "no-store",
    },
  });
}
